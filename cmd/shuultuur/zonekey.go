//go:build !small

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"shuultuur/lib/setting"
	"shuultuur/zone/sign"
)

const zoneKeygenHelp = `
Makes the keys that sign a zone (DNSSEC) and prints their files: one that signs
the others (KSK) and one that signs the records (ZSK), or with -csk one for
both. The files are as BIND has them, K*.key and K*.private, for their owner
alone to read. The DS records for the parent zone: shuultuur zone ds.`

func zoneKeygen(_ context.Context, e env, args []string) int {
	f, parse := flags(e, "zone keygen", "[-dir DIR] [-algorithm NAME] [-csk] ZONE", zoneKeygenHelp)
	dir := f.String("dir", ".", "`folder` for the files, made if need be")
	algorithm := f.String("algorithm", "ecdsap256sha256", strings.Join(sign.Algorithms(), " or "))
	csk := f.Bool("csk", false, "one key for everything")
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	files, err := sign.MakeKeys(*dir, f.Arg(0), *algorithm, *csk)
	for _, file := range files {
		fmt.Fprintln(e.stdout, file)
	}
	return finish(e, err)
}

const zoneDSHelp = `
Prints the DS records that the parent zone is to have for a zone: those of the
keys that sign the others. A key is a file of BIND's format, by the name of
either of its two files.`

func zoneDS(_ context.Context, e env, args []string) int {
	f, parse := flags(e, "zone ds", "KEY...", zoneDSHelp)
	if status := parse(args, 1, -1); status >= 0 {
		return status
	}
	records, err := sign.Delegations(f.Args())
	for _, ds := range records {
		fmt.Fprintln(e.stdout, ds)
	}
	return finish(e, err)
}

const zoneRollHelp = `
Changes the key of a zone that the parent zone has the DS record of (the KSK, or
the only key). Makes the next one, which a gateway with these keys takes up
within a minute; when everybody has seen it, CDS and CDNSKEY records ask the
parent for its DS. The gateway looks each hour what the parent has. When that has
been the new one, and no longer the old one, for a day, or you say so with
-ds-seen, the old key goes a week later. -status says what it waits for.`

func zoneRoll(_ context.Context, e env, args []string) int {
	f, parse := flags(e, "zone roll", "[-dir DIR] [-status | -ds-seen] ZONE", zoneRollHelp)
	dir := f.String("dir", ".", "`folder` of the keys")
	seen := f.Bool("ds-seen", false, "the parent has the DS record of the new key, and no longer that of the old one")
	status := f.Bool("status", false, "start nothing, and show what a roll in progress waits for")
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	if *seen && *status {
		return reportMistake(e, f, "-seen and -status exclude each other")
	}
	roll := sign.NextKey
	switch {
	case *status:
		roll = sign.RollStatus
	case *seen:
		roll = sign.SayFinished
	}
	text, err := roll(*dir, f.Arg(0), time.Now())
	if err != nil {
		return fail(e, err)
	}
	fmt.Fprintln(e.stdout, text)
	return 0
}

const zoneSignHelp = `
Signs a zone file and prints the zone as it is served, for other programs to
look at. A zone that a running gateway serves is signed by its settings.`

func zoneSign(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "zone sign", "-key KEY [-key KEY] [-denial nsec|nsec3] ZONE FILE", zoneSignHelp)
	var c sign.Config
	f.Func("key", "key `file`, or a folder with those of the zone", func(s string) error {
		c.Keys = append(c.Keys, setting.Source(s))
		return nil
	})
	f.StringVar(&c.Denial, "denial", sign.NSEC, "how absence is proved: nsec or nsec3")
	if status := parse(args, 2, 2); status >= 0 {
		return status
	}
	if !slices.Contains([]string{sign.NSEC, sign.NSEC3}, c.Denial) {
		return reportMistake(e, f, fmt.Sprintf("%q is neither %s nor %s", c.Denial, sign.NSEC, sign.NSEC3))
	}
	return finish(e, sign.Print(ctx, c, f.Arg(0), f.Arg(1), e.stdout))
}
