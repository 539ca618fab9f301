#!/usr/bin/env python3
"""A cluster of the nodes of a Slurm allocation, with a Slurm of this machine: slurm_test.py TESSERA

Prints a line for each check; 77 and a reason where there is no Slurm or no etcd.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys

from local_slurm import PATH, LocalSlurm, missing

TESSERA = pathlib.Path(sys.argv[1]).resolve()
failed = 0


def check(what, ok, found=""):
    global failed
    print(f"{'ok    ' if ok else 'FAILED'} {what}{f': {found}' if found != '' and not ok else ''}", flush=True)
    failed += not ok


def tessera(*words, status=0):
    done = subprocess.run([TESSERA, *words], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != status:
        raise RuntimeError(f"tessera {words}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def outputs(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.npy"))}


def cluster_of_an_allocation(slurm, model):
    here, there = slurm.folder / "here", slurm.folder / "there"
    tessera("run", model, "--arch", "cloud16", "--cores", "4", "--input", "random:3", "--output", here)
    command = (f"'{TESSERA}' run '{model}' --arch cloud16 --device \"$TESSERA_DEVICE\" --input random:3 --output '{there}' --json"
               f" && '{TESSERA}' cluster nodes --master \"$TESSERA_MASTER\" --json")
    done = slurm.run(["salloc", "-N2", str(TESSERA), "cluster", "slurm", "--port", "0", "--cores", "4", "--run", command])
    decoder, texts, at = json.JSONDecoder(), [], 0
    while at < len(done.stdout.rstrip()):
        text, at = decoder.raw_decode(done.stdout, at)
        texts.append(text)
        while at < len(done.stdout) and done.stdout[at].isspace():
            at += 1
    run, nodes = texts
    check("the nodes of the cluster are those of the allocation", [node["node"] for node in nodes["nodes"]] == slurm.nodes, nodes)
    check("the records are in an etcd of the allocation", nodes["store"].startswith("etcd"), nodes["store"])
    check("a run went to the cluster", run["device"].startswith("cluster:"), run["device"])
    check("it gave the bits of a run here", outputs(here) == outputs(there) and len(outputs(here)) > 0)


def certificates(folder):
    """Options of an authority's certificate for this machine."""
    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=60)
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *curve, "-days", "1", "-subj", "/CN=authority", "-keyout", "authority.key", "-out", "authority.pem")
    openssl("req", *curve, "-subj", "/CN=machine", "-keyout", "machine.key", "-out", "machine.csr")
    (folder / "machine.ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "machine.csr", "-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial",
            "-days", "1", "-extfile", "machine.ext", "-out", "machine.pem")
    return ["--tls-authority", f"{folder}/authority.pem", "--tls-certificate", f"{folder}/machine.pem", "--tls-key", f"{folder}/machine.key"]


def cluster_with_tls(slurm, model):
    if shutil.which("openssl") is None:
        print("skipped: there is no openssl for the certificates of a cluster with TLS")
        return
    tls = certificates(slurm.folder)
    here, there, words = slurm.folder / "here", slurm.folder / "there_by_tls", " ".join(f"'{word}'" for word in tls)
    command = (f"'{TESSERA}' run '{model}' --arch cloud16 --device \"$TESSERA_DEVICE\" --input random:3 --output '{there}' > /dev/null"
               f" && '{TESSERA}' doctor --cluster \"$TESSERA_MASTER\" {words} --patience 60 --json"
               f" && ! '{TESSERA}' cluster nodes --master \"$TESSERA_MASTER\" --patience 2")
    done = slurm.run(["salloc", "-N2", str(TESSERA), "cluster", "slurm", "--port", "0", "--cores", "4", *tls, "--run", command])
    checks = json.loads(done.stdout)["checks"]
    check("a run by TLS gave the bits of a run here", outputs(here) == outputs(there) and len(outputs(there)) > 0)
    check("the doctor reaches master, store and nodes by TLS",
          [one["detail"] for one in checks if one["check"] == "daemons"] == ["2 of 2 nodes answer"]
          and all(one["outcome"] != "error" for one in checks), checks)
    check("who shows no certificate is told so", "speaks TLS, and this side does not" in done.stderr, done.stderr)


def what_it_leaves(slurm):
    slurm.wait_for("no job", lambda: slurm.run(["squeue", "-h"]).stdout.strip() == "")
    # Steps have Slurm's variables, among them where this Slurm is.
    programs = (str(TESSERA), str(TESSERA.with_name("tessera-service")))
    mark = f"SLURM_CONF={slurm.folder}/slurm.conf".encode()

    def running():
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes() and os.readlink(process / "exe") in programs:
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:  # it has ended, or is another user's
                continue
        return found
    slurm.wait_for("the end of what was started", lambda: not running())
    check("nothing of it runs on", not running(), running())


def a_command_that_fails(slurm):
    done = slurm.run(["salloc", "-N1", str(TESSERA), "cluster", "slurm", "--port", "0", "--run", "exit 3"], check=False)
    check("a command's failure is the verb's", done.returncode == 1 and "'exit 3' has ended with status 3" in done.stderr, done.stderr)
    done = tessera("cluster", "slurm", status=1)
    check("outside an allocation it says what is missing", "there is no allocation of Slurm here" in done.stderr, done.stderr)


def sweep_as_array_job(slurm, model):
    words = ["sweep", model, "--arch", "tessera128", "--vary", "neural.count=1,2", "--vary", "dram.channels=1,2", "--json"]
    here = json.loads(tessera(*words).stdout)
    done = slurm.run([str(TESSERA), *map(str, words), "--slurm", "--folder", str(slurm.folder / "sweep")])
    there = json.loads(done.stdout)
    check("four points were tried", len(here["points"]) == 4 and all("cycles" in point for point in here["points"]), here)
    check("an array job gives the cycles of a sweep here", there["points"] == here["points"], there)
    check("each point has a log", len(list((slurm.folder / "sweep").glob("point_*.log"))) == 4)
    check("other architectures, other cycles", len({point["cycles"] for point in here["points"]}) > 1, here)


def main():
    lacking = missing() or (None if shutil.which("etcd", path=PATH) else "etcd")
    if lacking:
        print(f"skipped: there is no {lacking} (scripts/install_packages.sh cluster)")
        return 77
    with LocalSlurm(nodes=2) as slurm:
        model = slurm.folder / "model.onnx"
        tessera("zoo", "mobilenet_v1", "-o", model)
        cluster_of_an_allocation(slurm, model)
        cluster_with_tls(slurm, model)
        what_it_leaves(slurm)
        a_command_that_fails(slurm)
        sweep_as_array_job(slurm, model)
        what_it_leaves(slurm)
    return 1 if failed else 0


sys.exit(main())
