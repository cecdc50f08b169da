"""Optuna reads the journal of a study that the native trainer shares between processes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

TUNE = (
    "tune --algo a2c --env classic/CartPole-v1 --n-trials 4 --reduction-factor 2 -n 1024 --min-resource 256 "
    "--eval-episodes 2 --params n_envs:2 --params n_steps:16 --params net_arch:[8] --json --study"
)


def test_optuna_reads_a_shared_study(root: Path, tmp_path: Path) -> None:
    trainer, file = tmp_path / "trainer", tmp_path / "study.journal"
    subprocess.run(["go", "build", "-o", str(trainer), "./trainer"], cwd=root.parent.parent, timeout=900, check=True)
    commands = [subprocess.Popen([trainer, *TUNE.split(), file], stdout=subprocess.PIPE) for _ in range(2)]
    printed = [json.loads(command.communicate(timeout=300)[0]) for command in commands]
    assert printed[0] == printed[1]
    best, trials = printed[0]["best"], {trial["trial"]: trial for trial in printed[0]["trials"]}

    storage = JournalStorage(JournalFileBackend(str(file)))
    study = optuna.load_study(study_name="a2c classic/CartPole-v1", storage=storage)
    assert study.direction == optuna.study.StudyDirection.MAXIMIZE
    assert study.best_trial.number == best["trial"]
    assert study.best_value == best["mean"]
    assert sorted(trial.state.name for trial in study.trials) == ["COMPLETE", "PRUNED", "PRUNED", "PRUNED"]
    for trial in study.trials:
        ours = trials[trial.number]
        assert trial.last_step == ours["timesteps"]
        assert trial.intermediate_values[trial.last_step] == ours["mean"]
        assert trial.params["learning_rate"] == pytest.approx(ours["params"]["learning_rate"], abs=0)
    study.set_user_attr("note", "Optuna writes, too")
    command = subprocess.run([trainer, *TUNE.split(), file], stdout=subprocess.PIPE, timeout=300, check=True)
    assert json.loads(command.stdout) == printed[0]
