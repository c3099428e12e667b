# What the lessons need, for a class that cannot install it. In the project's folder, or in the one
# of the student's package:
#   docker build --platform linux/amd64 --tag lessons .
#   docker run --interactive --tty --rm --shm-size 1g --volume "$PWD/work:/home/student" lessons
FROM python:3.13-slim
COPY . /opt/miniapps
RUN pip install --no-cache-dir /opt/miniapps 'numba-cuda>=0.30,<0.31' && useradd --create-home --uid 1000 student
USER 1000
WORKDIR /home/student
CMD ["bash"]
