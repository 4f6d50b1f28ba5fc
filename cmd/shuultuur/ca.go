package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"shuultuur/intercept"
)

const caHelp = `
"shuultuur ca init -h" and so on say more. To look into HTTPS the gateway
needs a root that the clients trust. A program that can read the root's key can
pretend to be any site to them: keep it in one place, readable by its owner alone.`

// caCommands are the subcommands of "shuultuur ca".
func caCommands() []command {
	return []command{
		{name: "init", args: "[flags]", what: "make a root certificate and its key", run: noContext(caInit), here: ofKeys},
		{name: "show", args: "[-file FILE]", what: "show the root and how long it is valid", run: noContext(caShow), here: ofKeys},
		{name: "export", args: "[flags]", what: "write the certificate, without its key, for clients to install", run: noContext(caExport), here: ofKeys},
		{name: "install", args: "[-file FILE]", what: "explain how to install it on the usual systems", run: noContext(caInstall), here: ofKeys},
		{name: "rotate", args: "[flags]", what: "make the next root; clients with the old one go on working", run: noContext(caRotate), here: ofKeys},
	}
}

func ca(ctx context.Context, e env, args []string) int {
	return group(ctx, e, "ca", caHelp, caCommands(), args)
}

// noContext adapts a command that cannot take long.
func noContext(run func(env, []string) int) func(context.Context, env, []string) int {
	return func(_ context.Context, e env, args []string) int { return run(e, args) }
}

const (
	rootFile     = "root.pem"
	rootFileHelp = "the root's `file`: its certificates; the key is beside it, in root-key.pem for root.pem, or in the same file"
)

// rootFlags defines the common flags of init and rotate.
func rootFlags(e env, name, args, what string) (cfg *intercept.RootConfig, file *string, force *bool, parse parser) {
	cfg = new(intercept.RootConfig)
	f, inner := flags(e, name, args, what)
	file = f.String("file", rootFile, rootFileHelp)
	f.StringVar(&cfg.Name, "name", "", "common `name` of the certificate, shown to people who look at it")
	f.StringVar(&cfg.Organization, "organization", "", "`organization` in the certificate")
	days := f.Int("days", 0, "`days` the certificate is good for (default 1825)")
	f.BoolVar(&cfg.Final, "final", false, "let the root vouch for no other authority (path length 0); it cannot be rotated")
	f.Func("domains", "limit the root to these `domains`, comma-separated, and the names below them", func(s string) error { cfg.Domains = strings.Split(s, ","); return nil })
	force = new(bool)
	if name == "ca init" {
		f.BoolVar(force, "force", false, "replace an existing root; clients do not trust the gateway until they have the new one")
	}
	return cfg, file, force, func(a []string, count ...int) int {
		if status := inner(a, count...); status >= 0 {
			return status
		}
		if *days < 0 {
			return reportMistake(e, f, "-days is negative")
		}
		cfg.Validity = time.Duration(*days) * 24 * time.Hour
		return -1
	}
}

const caInitHelp = `
Makes a root certificate (ECDSA P-256). The certificate goes into a file that
may be given to clients, its key into one beside it that only its owner may
read: root.pem and root-key.pem. Files that are there are left alone.

With -domains the root is good for those names only, which clients enforce:
a stolen key is then of little use. The gateway can look into no other site.`

func caInit(e env, args []string) int {
	cfg, file, force, parse := rootFlags(e, "ca init", "[flags]", caInitHelp)
	if status := parse(args, 0, 0); status >= 0 {
		return status
	}
	root, err := intercept.MakeRoot(*cfg)
	if err != nil {
		return fail(e, err)
	}
	if err := root.WriteApart(*file, *force); err != nil {
		return fail(e, err)
	}
	fmt.Fprintf(e.stdout, "%s: made, and its key in %s\n", *file, intercept.KeyFile(*file))
	describe(e, root)
	fmt.Fprintf(e.stdout, e.named("\n\"shuultuur ca export%[1]s\" writes the certificate for clients, \"shuultuur ca install%[1]s\" says what to do with it.\n"), fileFlag(*file))
	return 0
}

const caRotateHelp = `
Replaces the root in the file by a new one with a new key, which the old root
vouches for until it ends. Clients that have only the old root go on working;
give them the new one before the old one ends. The gateway uses the new root
from its next reload on. The old key is deleted.

If somebody else may have the old key, do not rotate: make a new root with
"shuultuur ca init -force" and take the old one off the clients.

What is not given is taken over from the old root; the number at the end of
its name counts on.`

func caRotate(e env, args []string) int {
	cfg, file, _, parse := rootFlags(e, "ca rotate", "[flags]", caRotateHelp)
	if status := parse(args, 0, 0); status >= 0 {
		return status
	}
	old, err := intercept.ReadRoot(*file)
	if err != nil {
		return fail(e, err)
	}
	root, err := old.Rotate(*cfg)
	if err != nil {
		return fail(e, fmt.Errorf("%s: %w", *file, err))
	}
	if err := root.WriteApart(*file, true); err != nil {
		return fail(e, err)
	}
	fmt.Fprintf(e.stdout, "%s: rotated, and its key in %s\n", *file, intercept.KeyFile(*file))
	describe(e, root)
	return 0
}

func caShow(e env, args []string) int {
	f, parse := flags(e, "ca show", "[-file FILE]", `
Prints subject, dates and fingerprints of the root and of the earlier roots
that vouch for it. The status is 1 when the root has ended.`)
	file := f.String("file", rootFile, rootFileHelp)
	if status := parse(args, 0, 0); status >= 0 {
		return status
	}
	root, err := intercept.ReadRoot(*file)
	if err != nil {
		return fail(e, err)
	}
	describe(e, root)
	if time.Now().After(root.Certificate.NotAfter) {
		return 1
	}
	return 0
}

func describe(e env, root *intercept.Root) {
	c := root.Certificate
	long, short := intercept.Fingerprints(c)
	fmt.Fprintf(e.stdout, "subject      %s\n", c.Subject)
	fmt.Fprintf(e.stdout, "valid        %s to %s, %s\n", day(c.NotBefore), day(c.NotAfter), timeLeft(c.NotAfter))
	fmt.Fprintf(e.stdout, "SHA-256      %s\n", long)
	fmt.Fprintf(e.stdout, "SHA-1        %s\n", short)
	if len(c.PermittedDNSDomains) > 0 {
		fmt.Fprintf(e.stdout, "only for     %s\n", strings.Join(c.PermittedDNSDomains, ", "))
	}
	for _, old := range root.Earlier {
		fmt.Fprintf(e.stdout, "earlier      %s, until %s, %s\n", old.Subject, day(old.NotAfter), timeLeft(old.NotAfter))
	}
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

func timeLeft(end time.Time) string {
	switch n := int(time.Until(end) / (24 * time.Hour)); {
	case time.Now().After(end):
		return "ended"
	case n == 1:
		return "1 day left"
	default:
		return fmt.Sprintf("%d days left", n)
	}
}

const caExportHelp = `
Writes the root's certificate without its key. Formats:

  pem           for Unix systems and Firefox
  der           for Windows and Android
  p12           PKCS#12 trust store, for Java
  mobileconfig  profile for iOS and macOS

"shuultuur ca install" says how each system takes it in.`

func caExport(e env, args []string) int {
	f, parse := flags(e, "ca export", "[flags]", caExportHelp)
	file := f.String("file", rootFile, rootFileHelp)
	format := f.String("format", "pem", "`format`: "+strings.Join(intercept.Formats(), ", "))
	password := f.String("password", "changeit", "`password` of a p12, which many programs require; it protects nothing secret")
	out := f.String("o", "", "`file` to write to instead of standard output")
	if status := parse(args, 0, 0); status >= 0 {
		return status
	}
	root, err := intercept.ReadRoot(*file)
	if err != nil {
		return fail(e, err)
	}
	b, err := root.Export(*format, *password)
	if err != nil {
		return fail(e, err)
	}
	if *out == "" {
		if _, err := e.stdout.Write(b); err != nil {
			return fail(e, err)
		}
		return 0
	}
	// Never overwrite an existing file: it might be the root's. If it already has
	// the same contents, nothing needs to be done.
	if there, err := os.ReadFile(*out); err == nil && bytes.Equal(there, b) {
		fmt.Fprintf(e.stdout, "%s: that is the certificate already\n", *out)
		return 0
	}
	w, err := os.OpenFile(*out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fail(e, fmt.Errorf("%s already exists and has other content: delete it, or name another file with -o", *out))
	}
	if err != nil {
		return fail(e, err)
	}
	_, err = w.Write(b)
	if closed := w.Close(); err == nil {
		err = closed
	}
	return finish(e, err)
}

// fileFlag is the flag that a printed command needs for a root in another file.
func fileFlag(file string) string {
	if file == rootFile {
		return ""
	}
	return " -file " + file
}

func caInstall(e env, args []string) int {
	f, parse := flags(e, "ca install", "[-file FILE]", "Explains how to install the root certificate on the usual systems.")
	file := f.String("file", rootFile, rootFileHelp)
	if status := parse(args, 0, 0); status >= 0 {
		return status
	}
	for i, s := range intercept.Install() {
		if i > 0 {
			fmt.Fprintln(e.stdout)
		}
		fmt.Fprintf(e.stdout, e.named("%s\n  shuultuur ca export%s -format %s -o %s\n"), s.System, fileFlag(*file), s.Format, s.File)
		for n, step := range s.Steps {
			fmt.Fprintf(e.stdout, "  %d. %s\n", n+1, step)
		}
	}
	return 0
}
