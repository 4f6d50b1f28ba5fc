package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"shuultuur/lib/atomicfile"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/term"
)

const passwdHelp = `
Reads a password from standard input and writes USER's line for the password
file of "identity: {basic: {file: …}}": to standard output, or with -file into
that file, replacing the user's old line.`

func passwd(_ context.Context, e env, args []string) int {
	f, parse := flags(e, "passwd", "[-file FILE] USER", passwdHelp)
	file := f.String("file", "", "password `file` to change")
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	user := f.Arg(0)
	if user == "" || strings.ContainsAny(user, ":\r\n\x00") {
		return fail(e, fmt.Errorf("%q cannot be a user name: it must not be empty or contain a colon or a line break", user))
	}
	password, err := readPassword(e)
	if err != nil {
		return fail(e, err)
	}
	hash, err := bcrypt.GenerateFromPassword(password, 12)
	if err != nil {
		return fail(e, err)
	}
	line := user + ":" + string(hash) + "\n"
	if *file == "" {
		fmt.Fprint(e.stdout, line)
		return 0
	}
	if err := setLine(*file, user, line); err != nil {
		return fail(e, err)
	}
	return 0
}

// readPassword reads one line, without echo on a terminal.
func readPassword(e env) ([]byte, error) {
	if in, ok := e.stdin.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		fmt.Fprint(e.stderr, "Password: ")
		p, err := term.ReadPassword(int(in.Fd()))
		fmt.Fprintln(e.stderr)
		return p, err
	}
	s, err := bufio.NewReader(e.stdin).ReadString('\n')
	s = strings.TrimRight(s, "\r\n")
	if s == "" {
		return nil, errors.Join(errors.New("no password on standard input"), err)
	}
	return []byte(s), nil
}

// setLine replaces user's line in a password file, or appends one. Readers always find a
// complete file.
func setLine(file, user, line string) error {
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var b strings.Builder
	for l := range strings.Lines(string(old)) {
		if !strings.HasPrefix(l, user+":") {
			b.WriteString(strings.TrimRight(l, "\r\n") + "\n")
		}
	}
	b.WriteString(line)
	return atomicfile.WriteBytes(file, 0o600, []byte(b.String()))
}
