//go:build !small

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"shuultuur/tool/profile"
)

const profileHelp = `
Takes profiles from a running gateway's admin address into a folder: CPU, block,
mutex and allocations over the same seconds, then the execution trace (5 seconds
at most), heap and goroutines. reading.txt, which is printed too, says what is in them;
go tool pprof and go tool trace say more.

With -live it draws memory, collector and scheduler on the terminal once a
second instead, until Ctrl-C.

With -when cpu=0.9,memory=400MB,p99=250ms it looks every few seconds, and takes
profiles when the gateway uses more processor time (in cores) or memory, or when
one response in a hundred takes longer. It keeps those of the last ten times, with
the reason in why.txt, and rests for a minute after each.

A gateway on another machine needs -allow HOST and the token of listen.token in
its settings, in the environment variable SHUULTUUR_TOKEN. The token and the
profiles travel unencrypted; an SSH tunnel to the loopback address is better.`

// profileCommands are the subcommands of "shuultuur profile", besides taking profiles.
func profileCommands() []command {
	return []command{{name: "compare", args: "BEFORE AFTER", what: "show what differs most between two folders of profiles", run: profileCompare, here: ofFiles}}
}

func profileCommand(ctx context.Context, e env, args []string) int {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		return group(ctx, e, "profile", profileHelp, profileCommands(), args)
	}
	f, parse := flags(e, "profile", "[-admin HOST:PORT] [-seconds N] [-o DIR] [-live | -when LIMITS]", profileHelp)
	cfg := profile.Config{Token: os.Getenv("SHUULTUUR_TOKEN")}
	f.StringVar(&cfg.Admin, "admin", "127.0.0.1:8081", "admin address of the gateway, `host:port`")
	f.IntVar(&cfg.Seconds, "seconds", 10, "for `N` seconds")
	f.StringVar(&cfg.Dir, "o", "", "`folder` for the files; omitted, profile- and the time")
	f.Func("allow", "`host` that may be asked although it is not this machine; may be repeated", func(host string) error {
		cfg.Allow = append(cfg.Allow, host)
		return nil
	})
	live := f.Bool("live", false, "show memory, collector and scheduler every second")
	var limits *profile.Limits
	f.Func("when", "take profiles when one of the `limits` is exceeded, until Ctrl-C", func(text string) error {
		l, err := profile.ParseLimits(text)
		limits = &l
		return err
	})
	if status := parse(args, 0, 0); status >= 0 {
		return status
	}
	if cfg.Dir == "" {
		cfg.Dir = "profile-" + time.Now().Format("20060102-150405")
	}
	if e.at != nil {
		t, err := e.at.TLS()
		if err == nil {
			err = e.needs(f, "seconds", "o", "live", "when")
		}
		if err != nil {
			return fail(e, err)
		}
		cfg.URL, cfg.TLS, cfg.Admin = e.at.URL, t, e.at.URL
	}
	c, err := profile.New(cfg)
	if err != nil {
		return fail(e, err)
	}
	if *live {
		out, ok := e.stdout.(*os.File)
		if err := c.Live(ctx, e.stdout, ok && screen(out)); err != nil {
			return fail(e, err)
		}
		return 0
	}
	if limits != nil {
		if err := c.Watch(ctx, *limits, e.stdout); err != nil {
			return fail(e, err)
		}
		return 0
	}
	text, err := c.Fetch(ctx)
	if err != nil {
		return fail(e, err)
	}
	fmt.Fprintf(e.stdout, "%s\nwritten to %s\n", text, cfg.Dir)
	return 0
}

func profileCompare(_ context.Context, e env, args []string) int {
	f, parse := flags(e, "profile compare", "BEFORE AFTER", "Sets two folders of profiles side by side, or two files of one kind: their sums, and the functions that changed most. What grows with time is compared for each second.")
	if status := parse(args, 2, 2); status >= 0 {
		return status
	}
	text, err := profile.Compare(f.Arg(0), f.Arg(1))
	if err != nil {
		return fail(e, err)
	}
	fmt.Fprint(e.stdout, text)
	return 0
}

// screen reports whether f is a terminal that can show a screen.
func screen(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
