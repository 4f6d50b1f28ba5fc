//go:build !small

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"shuultuur/lib/setting"
	"shuultuur/zone"
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
	kinds := []bool{true, false}
	if *csk {
		kinds = kinds[:1]
	}
	if err := os.MkdirAll(*dir, 0o700); err != nil {
		return fail(e, err)
	}
	for _, ksk := range kinds {
		k, err := sign.Generate(f.Arg(0), *algorithm, ksk)
		if err != nil {
			return fail(e, err)
		}
		path, err := k.Write(*dir)
		if err != nil {
			return fail(e, err)
		}
		fmt.Fprintln(e.stdout, path)
	}
	return 0
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
	var keys []*sign.Key
	alone := true // no key signs other keys; each signs everything
	for _, path := range f.Args() {
		k, err := sign.Load(path)
		if err != nil {
			return fail(e, err)
		}
		alone = alone && !k.KSK()
		keys = append(keys, k)
	}
	for _, k := range keys {
		if k.KSK() || alone {
			fmt.Fprintln(e.stdout, strings.ReplaceAll(k.DS().String(), "\t", " "))
		}
	}
	return 0
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
	var text string
	var err error
	now := time.Now()
	switch {
	case *status:
		text, err = sign.RollStatus(*dir, f.Arg(0), now)
	case *seen:
		var k *sign.Key
		if k, err = sign.FinishRoll(*dir, f.Arg(0), now); err == nil {
			text = fmt.Sprintf("the parent has key %d; the previous key is removed when nobody needs it", k.Tag)
		}
	default:
		var old, next *sign.Key
		if old, next, err = sign.BeginRoll(*dir, f.Arg(0), now); err == nil {
			text = fmt.Sprintf("key %d takes the place of %d; its DS, for the parent once CDS shows it:\n%s", next.Tag, old.Tag, strings.ReplaceAll(next.DS().String(), "\t", " "))
		}
	}
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
	in, err := os.Open(f.Arg(1))
	if err != nil {
		return fail(e, err)
	}
	defer in.Close()
	z, err := zone.Read(in, f.Arg(0), f.Arg(1))
	if err != nil {
		return fail(e, err)
	}
	s, err := sign.New(f.Arg(0), c)
	if err != nil {
		return fail(e, err)
	}
	signed, err := s.Zone(ctx, z, time.Now())
	if err != nil {
		return fail(e, err)
	}
	for _, rr := range signed.Records {
		if _, err := fmt.Fprintln(e.stdout, rr); err != nil {
			return fail(e, err)
		}
	}
	return 0
}
