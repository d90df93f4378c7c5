import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lattice.workspace.paths import is_within
from lattice.workspace.shell.writes import find_writes

ENV = {"HOME": "/root", "PATH": "/bin"}

INSIDE = [
    "sudo --user nobody ls /etc",
    "timeout --preserve-status 5 make",
    "while IFS= read -r line; do echo $line; done < f",
    "command -v rm",
    "gcc -o app main.c",
    "sort f | uniq -c",
    "cat <<< hi > out",
    "> out",
    "find . | xargs --max-args 1 rm",
    "function f { rm a; }; f",
    "grep -rl foo . | xargs sed -i 's/foo/bar/g'",
    "find . -name '*.pyc' | sort | xargs rm",
    "find sub -type f -print0 2>/dev/null | xargs -0 rm -f",
    "git ls-files | xargs -I{} cp {} sub/",
    "find . | xargs -I{} mv {} {}.bak",
    "rm $(find sub -name '*.o')",
    "for f in $(grep -rl foo src | head -5); do sed -i s/a/b/ $f; done",
    "ls | xargs rm",
    "echo a b | xargs rm",
    "echo hi",
    "echo 'a > /etc/b'",
    'echo "x > /etc/p"',
    "ls /etc > out.txt",
    "cat /etc/passwd | grep root",
    "cd sub && echo > ../x",
    "mkdir -p b && cd b && echo > ../x",
    "mkdir -p n; cd n; echo > ../x",
    "x 2>/dev/null",
    "x >&2 2>&1",
    "for i in 1 2 3; do echo $i > f$i.txt; done",
    "cat <<EOF > out.txt\nhi > /etc/x\nEOF",
    "echo > out-$(date +%F).txt",
    'D=sub; mkdir -p $D/x; rm -rf "$D/x"',
    "sed -i 's/a/b/' *.py",
    "sed -n '1,5p' /etc/passwd",
    "cp /etc/passwd .",
    "find /etc -name x",
    "find . -name '*.pyc' -delete",
    "python -c 'print(1)' | tee log.txt",
    "curl -s http://x -o f",
    "dd if=/dev/zero of=f bs=1",
    "git status && git diff",
    "tar xzf a.tgz",
    "if [ -f x ]; then rm x; else touch x; fi",
    "f() { echo hi > o; }; f",
    "timeout 5 make -j4",
    "A=1 B=2 cmd",
    "[[ a > b ]] && echo",
    "(cd /etc && ls); echo > y",
    "(cd /tmp; ls) && echo > z",
    "sort -k2 f > g",
    "cat f | xargs grep x",
    "xargs -I{} cp {} sub/ < l",
    "while read l; do echo $l; done < f",
    "ln -s sub other",
    "awk '{print $1 > 3}' f",
    "echo $((1>2))",
    "test 1 -gt 2 || touch q",
    "rm -rf {a,b}.txt",
    "find . -type f -exec chmod 644 {} +",
    'export X=1; echo > "my file.txt"',
    "cd link; ls",
    "pip install x",
    "npm test 2>&1 | tail -5",
    "cp /etc/hosts . && cat hosts",
    "tar -cf out.tar /etc/hosts",
    "tar -tf a.tar",
    "unzip -l a.zip",
    "pushd sub && touch ../y",
    "echo a | tee sub/b > /dev/null",
    "cat a 2>&1 | head",
    "x=$((1+2)); echo > f$x",
    "rsync host:/etc/x .",
    "git commit -m 'a > /etc/b'",
    "echo \\> /etc/b",
    "# rm /etc/x",
    "find . -name x -exec grep y {} +",
    "env A=1 make",
    "echo > $(pwd)/x",
    'touch "$PWD/x"',
    'cp a "sub/my file"',
    "sed 's/a/b/' /etc/passwd",
    "perl -ne 'print' /etc/passwd",
    "bash -c 'echo hi > out'",
    "case x in a) touch b;; esac",
    "until false; do touch a; done",
    "echo x > /dev/stderr",
    "grep -rn 'x>y' /usr",
    "sudo -u nobody ls",
    "chmod +x run.sh",
    "ln -sf a.txt b.txt",
]

OUTSIDE = [
    "> /etc/x",
    ">/etc/x cat",
    "cat <<< hi > /etc/x",
    "ls |& tee /etc/x",
    "function f { rm /etc/x; }; f",
    "a=(/etc/x); rm ${a[0]}",
    "rm ${X:-/etc/x}",
    "set -- /etc/x; rm $1",
    'set -- /etc/x; rm "$@"',
    "rm /e''tc/x",
    "rm /et?/x",
    "X=rm; $X /etc/x",
    "alias r='rm /etc/x'\nr",
    "IFS=:; X=a:/etc/x; rm $X",
    "cd -- /etc; touch x",
    "sudo --user root rm /etc/x",
    "sudo --new-option value rm /etc/x",
    "env --chdir=/etc touch x",
    "env -C/etc touch x",
    "echo /etc/x | xargs --max-args 1 rm",
    "echo /etc/x | xargs --new-option 1 rm",
    "flock f rm /etc/x",
    "flock f -c 'rm /etc/x'",
    "time -o /etc/x ls",
    "gcc -o /etc/x main.c",
    "gcc -o/etc/x main.c",
    "uniq a /etc/x",
    "x 2>(tee /etc/x)",
    "[ -f x ] > /etc/x",
    "exec 3>/etc/x",
    "exec 3<>/etc/x",
    ": > /etc/x",
    "find /etc | xargs rm",
    "find .. -name x | xargs rm",
    "find . -printf '/etc/%f' | xargs rm",
    "find . | sed s,.,/etc, | xargs rm",
    "grep -r foo . | xargs rm",
    "echo /etc/x | xargs rm",
    "echo 'a /etc/x' | xargs rm",
    "ls -d /etc/x | xargs rm",
    "find . | xargs -I{} mv {} /etc/{}",
    "find . | xargs -I{} cp a ../{}",
    "rm $(find / -name x)",
    "cat list | xargs -I{} rm {}",
    "find $X | xargs rm",
    "x>/etc/a",
    "x 2>> /etc/f",
    "x 1>>/etc/f",
    "x >| /etc/f",
    "x >~/f",
    "x > $HOME/f",
    "x > $UNKNOWN/f",
    "rm -rf $UNSET/",
    "echo | tee /etc/x",
    "x & rm /etc/y",
    "ls\nrm /etc/y",
    "cd /etc && echo > passwd",
    "cd /etc; echo > passwd",
    "sudo rm /etc/x",
    "env A=1 rm /etc/x",
    "A=b rm /etc/x",
    "dd if=x of=/etc/y",
    "sed -i s/a/b/ /etc/passwd",
    "sed -i.bak -e s/a/b/ /etc/passwd",
    "ln -s /etc/passwd here",
    "ln here /etc/x",
    "install -m 644 a /etc/b",
    "install a b -t /etc",
    "cp a /etc",
    "cp -t/etc a",
    "cp --target-directory=/etc a",
    "mv a ../b",
    "echo > link/x",
    "rm link/passwd",
    "touch ../x",
    "sh -c 'rm /etc/x'",
    'bash -lc "rm /etc/x"',
    "eval 'rm /etc/x'",
    "eval $X",
    "f() { rm /etc/x; }; f",
    "$(echo rm) /etc/x",
    "\\rm /etc/x",
    "/bin/rm /etc/x",
    "'r'm /etc/x",
    'echo x > "/etc/x"',
    "echo x > /etc''/x",
    "if true; then rm /etc/x; fi",
    "while true; do cd ..; echo > x; done",
    "for f in /etc/a b; do rm $f; done",
    "find /etc -delete",
    "find /etc -exec rm {} \\;",
    "cat l | xargs rm",
    "tar xf a -C /etc",
    "tar -C /etc -xf a",
    "curl -o /etc/x u",
    "wget -O /etc/x u",
    "X='a /etc/b'; rm $X",
    "X=/etc; Y=$X/p; echo > $Y",
    "echo > $(cat f)",
    "{ echo; } > /etc/x",
    "( echo > /etc/x )",
    "echo `rm /etc/x`",
    "diff <(rm /etc/x) b",
    "echo a | sudo tee -a /etc/x",
    "cd sub/../.. && touch x",
    "cd sub & echo > ../x",
    "trap 'rm /etc/x' EXIT",
    'export "HOME=/etc"; echo > ~/x',
    "HOME=/etc; cd; echo > passwd",
    "nohup rm /etc/x &",
    "timeout -s KILL 5 rm /etc/x",
    "truncate -s 0 /etc/x",
    "chmod 777 /etc/x",
    "sort -o /etc/x f",
    "printf x >&/etc/x",
    "x &> /etc/x",
    "x &>> /etc/x",
    "echo > sub/../../x",
    "rm -rf /",
    "echo ${X:=/etc/x}; echo > $X",
    "read HOME; echo > ~/x",
    "mkdir -p /opt/x/{a,b}",
    "rm {/etc/a,b}",
    "echo > *",
    "cat > /etc/x <<E\nhi\nE",
    "perl -pi -e 's/a/b/' /etc/x",
    "IFS= read -r HOME; echo > $HOME/f",
    "echo 'unterminated",
    'cd "$(cat d)" && touch x',
    "rsync -a a/ /etc/b/",
    "case x in a) touch /etc/b;; esac",
    "until rm /etc/x; do :; done",
    "! rm /etc/x",
    "time rm /etc/x",
    "coproc rm /etc/x",
    "command rm /etc/x",
    "exec > /etc/x",
    "pushd /etc && touch x",
    "popd; touch x",
    "zip /etc/x.zip a",
    "unzip -d /etc a.zip",
    "patch -d /etc < p",
    "split -b 1 f /etc/x",
    "sed --in-place=.b s/a/b/ /etc/x",
    "sed --in-pl s/a/b/ /etc/x",
    "mkfifo /etc/x",
    "echo > ${HOME}/x",
    'echo > "$HOME"/x',
    "echo > $'/etc/x'",
    'echo > $"/etc/x"',
    "A=/etc B=$A; rm $B/x",
    "for d in /etc sub; do touch $d/x; done",
    "select d in /etc; do touch $d/x; done",
    "find . -fprint /etc/x",
    "find /etc -exec sh -c 'rm {}' \\;",
    "parallel rm ::: /etc/x",
    "seq 3 | parallel rm",
    "xargs -I% mv % /etc",
    "doas rm /etc/x",
    "env -C /etc touch x",
    "env -S 'rm /etc/x'",
    "nice -n 5 rm /etc/x",
    "stdbuf -oL rm /etc/x",
    "busybox rm /etc/x",
    "su -c 'rm /etc/x'",
    "watch rm /etc/x",
    'declare "HOME=/etc"; rm ~/x',
    "printf -v HOME /etc; rm ~/x",
    "source x; rm $HOME/y",
    "cd -; touch x",
    "CDPATH=/etc; cd foo; touch x",
    "f() { cd /etc; }; f; touch x",
    "g() { g; touch x; cd ..; }; g",
    "cat <<A <<B > /etc/x\n1\nA\n2\nB",
    "cd sub || cd /etc; touch x",
    "(cd /etc; touch x)",
    "if cd /etc; then touch x; fi",
    "while read d; do cd $d; done; touch x",
    "sh -c \"sh -c 'rm /etc/x'\"",
    "cp a /etc/",
    "install -d /etc/x",
    "mv -t /etc a",
    "scp a /etc/b",
    "curl -O http://x --output-dir /etc",
    "curl -sSo/etc/x u",
    "wget -P /etc u",
    'dd of="$X"',
    "echo >| $X",
    "rm -- /etc/x",
    "rm -rf -- ~",
    "truncate /etc/x -s 0",
    "link a /etc/b",
    "gzip /etc/x",
    "chown root /etc/x",
    "cd / && rm -rf etc",
    "rm -rf ./../../etc",
    "rm link/../x",
]


@pytest.fixture
def place(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to("/etc")
    return tmp_path


def refused(command, place):
    return [w for w in find_writes(command, place, ENV) if w.path is None or not is_within(w.path, [place])]


@pytest.mark.parametrize("command", INSIDE)
def test_what_stays_inside_is_left_alone(command, place):
    """agent:BASH-10 agent:BASH-11 agent:BASH-12 agent:BASH-13 - quoted text is text, bare names are judged too."""
    assert refused(command, place) == []


@pytest.mark.parametrize("command", OUTSIDE)
def test_what_leads_outside_or_cannot_be_known_is_found(command, place):
    """agent:BASH-08 agent:BASH-09 agent:BASH-14 agent:W-15"""
    assert refused(command, place)


def test_a_write_says_what_writes_where(place):
    (write,) = find_writes("echo hi > sub/../out.txt", place, ENV)
    assert (write.by, write.text) == (">", "sub/../out.txt")
    assert os.path.normpath(write.path) == str(place / "out.txt")


def test_a_pattern_is_judged_by_what_it_matches(place):
    assert refused("rm link", place)
    assert refused("touch l*/passwd", place)
    assert not refused("rm -f s*/*.txt", place)


@pytest.mark.parametrize(
    "command",
    [
        "touch " + "{a,b}" * 30,
        "touch "
        + "".join(f"$A{n}" for n in range(10))
        + "; "
        + "".join(f"A{n}=x; A{n}=y; A{n}=z; " for n in range(10)),
        "".join(f"f{n}() {{ f{n + 1}; f{n + 1}; }}; " for n in range(30)) + "f30() { ls; }; f0",
        "for a in 1 2; do cd a; " * 12 + "touch x; " + "done; " * 12,
        "eval " * 30 + "ls",
        "(" * 2000 + "ls" + ")" * 2000,
    ],
)
def test_what_would_take_for_ever_is_refused(command, place):
    assert refused(command, place)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(
            "a /etc/x $X ${Y} > >> < | & && || ; ( ) { } ' \" ` $( ~ * {a,b} if then fi for in do done rm cd sh -c eval \\ \n << EOF [[ ]] =".split(
                " "
            )
        ),
        max_size=15,
    )
)
def test_no_text_breaks_the_check(place, words):
    assert isinstance(find_writes(" ".join(words), place, ENV), list)


def test_values_of_a_variable_that_refers_to_itself_end(place):
    assert refused("A=$B; B=$A; rm $A", place)
