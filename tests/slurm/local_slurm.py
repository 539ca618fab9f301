"""A Slurm of this machine: munged, slurmctld and a slurmd for each node, in a folder of their own.

    with LocalSlurm(nodes=2) as slurm:
        slurm.run(["salloc", "-N2", "srun", "hostname"])

Nothing of an installed Slurm's configuration, sockets or ports is used.
"""
import getpass
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

WAIT_S = 60  # far longer than anything takes: a busy machine is no failure
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "salloc", "sbatch", "scancel", "sinfo", "squeue")
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def missing():
    """The first program that is not there; None where all are."""
    return next((program for program in PROGRAMS if shutil.which(program, path=PATH) is None), None)


def free_ports(count):
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class LocalSlurm:
    def __init__(self, nodes):
        self.nodes = [f"t{i + 1}" for i in range(nodes)]
        self.processes = []

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tessera-slurm-"))
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
        for process in reversed(self.processes):
            try:
                process.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def begin(self, name, *words):
        log = open(self.folder / f"{name}.log", "wb")
        self.processes.append(subprocess.Popen(words, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def start(self):
        for name in ("munge", "state", "spool", *(f"spool/{node}" for node in self.nodes)):
            (self.folder / name).mkdir(mode=0o700)
        key = self.folder / "munge/key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        self.environment = {**os.environ, "PATH": PATH, "SLURM_CONF": str(self.folder / "slurm.conf")}
        self.environment = {name: value for name, value in self.environment.items() if not name.startswith(("SLURM_JOB", "SBATCH_"))}
        self.write_configuration()
        munge = self.folder / "munge"
        self.begin("munged", "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={munge}/socket",
                   f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed")
        self.wait_for("munged", lambda: (munge / "socket").exists())
        self.begin("slurmctld", "slurmctld", "-D", "-i")
        for node in self.nodes:
            self.begin(node, "slurmd", "-D", "-N", node)
        self.wait_for("idle nodes", lambda: len(self.run(["sinfo", "-h", "-N", "-t", "idle", "-o", "%N"], check=False)
                                                .stdout.split()) == len(self.nodes))

    def write_configuration(self):
        host, user = socket.gethostname().split(".")[0], getpass.getuser()
        control, *ports = free_ports(1 + len(self.nodes))
        lines = [
            "ClusterName=test", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={control}",
            f"SlurmUser={user}", f"SlurmdUser={user}",
            "AuthType=auth/munge", f"AuthInfo=socket={self.folder}/munge/socket", "CredType=cred/munge",
            f"StateSaveLocation={self.folder}/state", f"SlurmdSpoolDir={self.folder}/spool/%n",
            f"SlurmctldPidFile={self.folder}/slurmctld.pid", f"SlurmdPidFile={self.folder}/slurmd-%n.pid",
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_Core", "ReturnToService=2", "MpiDefault=none", "SwitchType=switch/none",
            "JobAcctGatherType=jobacct_gather/none", "AccountingStorageType=accounting_storage/none",
            "KillWait=5", "SlurmdParameters=config_overrides", "SchedulerParameters=sched_interval=1,batch_sched_delay=0",
        ]
        for node, port in zip(self.nodes, ports):
            lines.append(f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 State=UNKNOWN")
        lines.append(f"PartitionName=all Nodes={','.join(self.nodes)} Default=YES MaxTime=INFINITE State=UP")
        (self.folder / "slurm.conf").write_text("\n".join(lines) + "\n")

    def wait_for(self, what, is_so):
        end = time.monotonic() + WAIT_S
        while not is_so():
            ended = [process.args[0] for process in self.processes if process.poll() is not None]
            if ended or time.monotonic() > end:
                logs = "\n".join(f"-- {path.name}\n{path.read_text(errors='replace')[-1500:]}"
                                 for path in sorted(self.folder.glob("*.log")))
                raise RuntimeError(f"{f'{ended} ended' if ended else f'waited {WAIT_S} s'}, for {what}\n{logs}")
            time.sleep(0.05)

    def run(self, words, check=True, cwd=None, **more):
        done = subprocess.run(words, env=self.environment, cwd=cwd or self.folder, stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=5 * WAIT_S, check=False, **more)
        if check and done.returncode != 0:
            raise RuntimeError(f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done
