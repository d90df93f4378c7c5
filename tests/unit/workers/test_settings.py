"""Where settings come from, in which order, and what is refused."""

import pytest

from workers.settings import OPTIONS, Settings, SettingsError, load_settings, parse_duration, parse_size


def load(flags=None, environ=None, folder=None):
    return load_settings(flags, environ=environ or {}, folder=folder)


def project(folder, text):
    (folder / "pyproject.toml").write_text(text, "utf-8")


def test_defaults_are_the_documented_ones(tmp_path):
    settings = load(folder=tmp_path)
    assert settings == Settings()
    assert (settings.lease, settings.max_attempts, settings.drain_timeout) == (30, 3, 60)
    assert (settings.retention, settings.max_message_bytes) == (7 * 86400, 1048576)
    assert (settings.lease_ms, settings.retention_ms) == (30_000, 604_800_000)


def test_flag_beats_variable_beats_project_beats_default(tmp_path):
    project(tmp_path, '[tool.lattice]\nlease = "5s"\nconcurrency = 5\nmax-attempts = 5\n')
    environ = {"LATTICE_LEASE": "6s", "LATTICE_CONCURRENCY": "6"}
    settings = load({"lease": "7s", "concurrency": None}, environ, tmp_path)
    assert (settings.lease, settings.concurrency, settings.max_attempts) == (7, 6, 5)


def test_redis_url_falls_back_to_the_common_variable(tmp_path):
    assert load(None, {"REDIS_URL": "redis://b"}, tmp_path).redis_url == "redis://b"
    both = {"REDIS_URL": "redis://b", "LATTICE_REDIS_URL": "redis://a"}
    assert load(None, both, tmp_path).redis_url == "redis://a"


def test_an_empty_variable_is_an_unset_one(tmp_path):
    assert load(None, {"LATTICE_REDIS_URL": "", "REDIS_URL": "redis://b"}, tmp_path).redis_url == "redis://b"


def test_everything_wrong_is_named_at_once(tmp_path):
    project(tmp_path, '[tool.lattice]\nleese = "5s"\nhealth_port = 70000\n')
    environ = {"LATTICE_LEAES": "3", "LATTICE_MAX_ATTEMPTS": "0", "LATTICE_APP_NAME": "x"}
    with pytest.raises(SettingsError) as refused:
        load({"retention": "soon", "log_level": "loud"}, environ, tmp_path)
    said = refused.value.message
    for fault in (
        "leese is an unknown key in [tool.lattice]; did you mean lease?",
        "[tool.lattice] health_port: '70000' is no port",
        "LATTICE_LEAES is an unknown variable; did you mean LATTICE_LEASE?",
        "LATTICE_APP_NAME is an unknown variable",
        "LATTICE_MAX_ATTEMPTS: '0' is not more than 0",
        "--retention: 'soon' is no duration",
        "--log-level: 'loud' is none of debug",
    ):
        assert fault in said


def test_variables_of_demo_tests_and_other_programs_are_left_alone(tmp_path):
    load(None, {"LATTICE_DEMO_PATH": "/x", "LATTICE_TEST_REDIS": "1", "PATH": "/bin", "LATTICEWORK": "1"}, tmp_path)


def test_a_project_file_that_is_no_toml_is_named(tmp_path):
    project(tmp_path, "[tool.lattice\n")
    with pytest.raises(SettingsError, match=r"pyproject\.toml cannot be read"):
        load(folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "seconds"), [("30", 30), ("30s", 30), ("5m", 300), ("1.5h", 5400), ("7d", 604800), ("250ms", 0.25)]
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-5s", "5 weeks", "1:30", "nan", "inf"])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match="is no duration"):
        parse_duration(text)


@pytest.mark.parametrize(("text", "size"), [("1048576", 1048576), ("512KiB", 524288), ("1 MiB", 1048576)])
def test_sizes(text, size):
    assert parse_size(text) == size


def test_a_child_is_told_the_same_settings(tmp_path):
    told = Settings(app="a:b", redis_url="redis://u:p@h/1", concurrency=3, burst=True, lease=2.5, log_level="debug")
    assert load(None, told.to_environment(), tmp_path) == told


def test_a_child_is_not_told_what_only_the_environment_says(tmp_path):
    told = {"LATTICE_HEALTH_PORT": "8080", **Settings(app="a:b").to_environment()}
    assert load(None, told, tmp_path).health_port is None


def test_every_setting_has_a_flag_and_a_variable():
    assert OPTIONS["max_message_bytes"].flag == "--max-message-bytes"
    assert OPTIONS["max_message_bytes"].variables == ("LATTICE_MAX_MESSAGE_BYTES",)
    assert all(option.help for option in OPTIONS.values())
