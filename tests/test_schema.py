"""Files of schema 1, written by earlier versions, are still read: `tests/data/schema-1.*`."""

from __future__ import annotations

import json
import shutil
from argparse import Namespace
from pathlib import Path

import pytest
from support import ROOT

from miniapps.parameters import InputError
from miniapps.workbench.cli import build_parser, main
from miniapps.workbench.exit_status import VALID
from miniapps.workbench.run.schema import SCHEMA, upgraded
from miniapps.workbench.show.animation import write_animation
from miniapps.workbench.show.saved import SavedRun
from miniapps.workbench.study import report
from miniapps.workbench.study.campaign import Campaign, Writer
from miniapps.workbench.study.options import study_of
from miniapps.workbench.study.runner import header_of

OUTPUT = ROOT / "tests/data/schema-1.h5"
CAMPAIGN = ROOT / "tests/data/schema-1.jsonl"


@pytest.mark.slow
def test_an_old_output_file_is_read(tmp_path: Path) -> None:
    """Catches an old file whose snapshots are ignored, or whose record keeps its old keys."""
    run = SavedRun.read(OUTPUT)
    assert run.record["schema"] == SCHEMA and "frames" not in run.record
    assert run.record["snapshot_every"] == 2
    assert run.thumbnail_steps.tolist() == [2, 4, 5] and run.thumbnails.shape == (3, 6, 5)
    assert write_animation(OUTPUT, None, tmp_path / "run.html").stat().st_size > 0


@pytest.mark.slow
@pytest.mark.usefixtures("few_resamples")
def test_an_old_campaign_is_read_and_reported(tmp_path, monkeypatch):
    """Catches an old campaign whose records, or whose commands, keep their old names."""
    monkeypatch.setattr(report, "FORMATS", ("svg",))  # what the page has of a figure
    campaign = Campaign.read(CAMPAIGN)
    records = [run["record"] for run in campaign.of("run")]
    assert records and all(record["snapshot_every"] == 0 for record in records)
    assert all("frames" not in record for record in records)
    for point in campaign.head["points"]:
        assert "--snapshot-every" in point["arguments"] and "--frames" not in point["arguments"]
    copy = shutil.copy(CAMPAIGN, tmp_path / "old.jsonl")
    assert report.write(copy, None) == 0
    assert "--snapshot-every" in copy.with_suffix(".html").read_text()


def test_an_old_campaign_is_continued(tmp_path: Path) -> None:
    """Catches a refusal to continue an old campaign with the same study, and one of any study."""
    copy = shutil.copy(CAMPAIGN, tmp_path / "old.jsonl")
    head = json.loads(CAMPAIGN.read_text().splitlines()[0])
    Writer(copy, Campaign.read(CAMPAIGN).head).close()
    Writer(copy, head).close()
    head["points"][0]["arguments"].append("--trace")
    with pytest.raises(InputError, match="holds another study"):
        Writer(copy, head)


EARLIER = """
run echo --driver mpi -n 2 --odf 1 --lb-period 0 --device cpu --steps 8 --warmup 10 --blocks 2x1
    --snapshot-every 0 --size 64x64 --bytes 1024
run echo --driver charm -n 2 --odf 4 --lb-period 0 --device cpu --steps 8 --warmup 10 --blocks 2x1
    --snapshot-every 0 --size 64x64 --bytes 1024
run echo --driver charm -n 2 --odf 4 --balancer Greedy --lb-period 4 --device cpu --steps 8
    --warmup 10 --blocks 2x1 --snapshot-every 0 --lb-first 12 --size 64x64 --bytes 1024
"""


def test_a_campaign_with_earlier_arguments_is_continued(tmp_path: Path) -> None:
    """Catches a refusal of arguments in the earlier order, with the period 0 for every driver.

    And one comparison for all arguments: another period is another study.
    """
    words = "study lb echo --pes 2 --balancers Greedy --lb-periods 4 --lb-first 12 --steps 8"
    study = study_of(build_parser(words.split()).parse_args(words.split()))
    head = header_of(study, study.specs())
    earlier = json.loads(json.dumps(head))
    for point, line in zip(earlier["points"], EARLIER.split("\nrun ")[1:], strict=True):
        point["arguments"] = ["run", *line.split()]
    Writer(tmp_path / "campaign.jsonl", earlier).close()
    Writer(tmp_path / "campaign.jsonl", head).close()
    other = earlier["points"][2]["arguments"]
    other[other.index("--lb-period") + 1] = "5"
    with pytest.raises(InputError, match="holds another study"):
        Writer(tmp_path / "campaign.jsonl", earlier)


def test_a_new_record_stays_as_it_is() -> None:
    """Catches an upgrade that renames a key which means something else in a new record."""
    record = {"app": "echo", "schema": SCHEMA, "frames": "of a later version"}
    assert upgraded(record) == record
    assert upgraded({"frames": 3}) == {"snapshot_every": 3, "schema": SCHEMA}


def test_old_names_of_options_still_work() -> None:
    """Catches a script of an earlier version that is refused, or whose option is ignored."""

    def read(line: str) -> Namespace:
        words = line.split()
        return build_parser(words).parse_args(words)

    assert read("run echo --frames 3").snapshot_every == 3
    assert read("run echo --snapshot-every 4").snapshot_every == 4
    old, new = read("plot a.h5 --film --beside b.h5"), read("plot a.h5 --animation --compare b.h5")
    assert vars(old) == vars(new) and new.animation and new.compare == Path("b.h5")


def test_old_names_say_the_new_ones(capsys: pytest.CaptureFixture[str]) -> None:
    """Catches an option that is renamed without a word, or that says so in every rank."""
    words = "run echo --blocks 2x1 --driver mpi --preset tiny --dry-run".split()
    assert main(words) == VALID
    said = capsys.readouterr()
    assert said.err == "miniapps: --blocks is called --pe-grid now\n"
    assert "--pe-grid 2x1" in said.out and "--blocks" not in said.out
    assert main(["run", "echo", "--preset", "tiny", "--pe-grid", "2x1", "--dry-run"]) == VALID
    assert capsys.readouterr().err == ""
