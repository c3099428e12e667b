"""Is the choice that `miniapps replay` recommends as fast as it predicts? And large machines.

Three apps with uneven loads run on two PEs with GreedyRefine every 25 steps, traced. From these
records, replay recommends a balancer and a period. Then recorded and recommended runs take turns:
each prediction is made from the record just before the run with which it is compared. ``scale``
replays 2^20 blocks, of random loads in a file, on up to 131 072 PEs, and gives the CPU time.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from time import process_time
from typing import Any

import h5py
import numpy as np

from benchmarks.common import median, run, save, spread
from miniapps.drivers.timing import ROW
from miniapps.workbench.cli import main as miniapps
from miniapps.workbench.replay.costs import Costs
from miniapps.workbench.replay.predict import Choice, costs_of, predict
from miniapps.workbench.replay.recorded import Recorded
from miniapps.workbench.run.record import Times, timing

FIRST, TRIALS = 3, 9
PERIODS = 5, 10, 25, 50
BALANCERS = "Greedy", "GreedyRefine", "RefineA", "RefineB", "none"
STEPS = ["--steps", 100, "--warmup", 5, "--driver", "charm", "-n", 2, "--audit", 0]
RECORDED: list[object] = ["--balancer", "GreedyRefine", "--lb-period", 25]
PROBLEMS: dict[str, list[object]] = {
    "stencil3d": ["--size", "64x64x64", "--imbalance", "paper", "--odf", 4],
    "pic": ["--size", 1998, "--particles", 1000000, "--distribution", "geometric:0.998",
            "-m", 5, "--odf", 8],
    "leanmd": ["--cells", "20x14x14", "--gradient", "4,20", "--odf", 8],
}  # fmt: skip
BLOCKS, ROUNDS = (1024, 1024), 4


def main() -> None:
    """Measure both."""
    with tempfile.TemporaryDirectory() as folder:
        proofs = {app: proof(app, words, Path(folder)) for app, words in PROBLEMS.items()}
        save("replay", {"proof": proofs, "scale": scale(Path(folder))})


def proof(app: str, words: list[object], folder: Path) -> dict[str, Any]:
    """The recommended choice, its times, and those predicted."""
    common: list[object] = [app, *words, *STEPS]
    records = [recorded(common, folder / f"{app}{n}.h5") for n in range(FIRST)]
    target = folder / f"{app}.json"
    lists = ["--balancers", ",".join(BALANCERS), "--lb-periods", ",".join(map(str, PERIODS))]
    miniapps(["replay", *map(str, records), *lists, "--json", str(target)])
    (best,) = json.loads(target.read_text())["best"]
    choice = Choice(2, best["odf"], best["balancer"], best["period"])
    chosen: list[object] = []
    if choice.period:
        chosen = ["--balancer", choice.balancer, "--lb-period", choice.period]
    predicted, measured, before, waited = [], [], [], []
    for _ in range(TRIALS):
        record = Recorded.read(recorded(common, folder / f"{app}.h5"))
        predicted.append(predict(record, choice, costs_of(record, Costs())).step_s)
        before.append(record.wall_s / record.steps)
        made = run(*common, *chosen)
        measured.append(made["wall_s"] / made["steps"])
        waited.append(made["disturbance"]["waited"])
    ratios = [m / p for m, p in zip(measured, predicted, strict=True)]
    return {
        "choice": f"{choice.balancer} every {choice.period}",
        "recorded_step_s": spread(before),
        "predicted_step_s": spread(predicted),
        "measured_step_s": spread(measured),
        "median_over_median": median(measured) / median(predicted),
        "measured_over_predicted": spread(ratios),
        "waited_for_a_core": median(waited),
    }


def recorded(common: list[object], path: Path) -> Path:
    """A traced run's file."""
    run(*common, *RECORDED, "--trace", "--output", path)
    return path


def scale(folder: Path) -> dict[str, Any]:
    """CPU seconds to replay 2^20 blocks from a file, to the table, for each number of PEs."""
    run("pic", "--preset", "tiny", "--audit", 0, "--output", folder / "small.h5")
    path = enlarged(folder / "small.h5", folder / "large.h5")
    found = {}
    for pes in (2, 1024, 131072):
        lists = ["--balancers", "Greedy,GreedyRefine,RefineA,RefineB,Rotate,none,optimal"]
        before = process_time()
        miniapps(["replay", str(path), "--pes", str(pes), *lists, "--lb-periods", "2"])
        found[str(pes)] = float(f"{process_time() - before:.3g}")
    return {"blocks": int(np.prod(BLOCKS)), "rounds": ROUNDS, "cpu_s_of_seven_balancers": found}


def enlarged(source: Path, target: Path) -> Path:
    """A run's file, with the tables of a run of 2^20 blocks and `ROUNDS` rounds."""
    target.write_bytes(source.read_bytes())
    blocks = int(np.prod(BLOCKS))
    draw = np.random.default_rng(0)
    loads = draw.lognormal(-6.0, 1.0, blocks) * draw.uniform(0.9, 1.1, (ROUNDS, blocks))
    rows = np.zeros(ROUNDS * blocks, ROW)
    rows["block"] = np.tile(np.arange(blocks), ROUNDS)
    rows["round"] = np.repeat(np.arange(ROUNDS), blocks)
    rows["compute_s"] = loads.ravel()
    with h5py.File(target, "r+") as file:
        record = json.loads(file.attrs["record"])
        wall_s = loads.sum(axis=1)
        first = record["warmup"]
        for name, data in {
            "wall_s": wall_s,
            "rounds": np.array([[first + n, 1] for n in range(ROUNDS)]),
            "blocks": rows,
        }.items():
            del file[f"timing/{name}"]
            file[f"timing/{name}"] = data
        file.attrs["record"] = json.dumps(consistent(record, wall_s))
    return target


def consistent(record: dict[str, Any], wall_s: np.ndarray) -> dict[str, Any]:
    """A record of one PE whose measurements fit the times of its rounds, all spent computing."""
    total = float(wall_s.sum())
    work = record["rate"]["value"] * record["wall_s"] / record["steps"] * ROUNDS
    rounds = np.array([(record["warmup"] + n, 1) for n in range(ROUNDS)])
    times = Times(rounds, wall_s, wall_s[np.newaxis], total, 1.0, work, record["rate"]["unit"])
    more = {"steps": ROUNDS, "blocks": list(BLOCKS), "pe_grid": list(BLOCKS), "lb": []}
    return record | more | timing(times, 1, [])


if __name__ == "__main__":
    main()
