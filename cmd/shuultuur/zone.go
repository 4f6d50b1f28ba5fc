//go:build !small

package main

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"shuultuur/zone"
)

// zoneCommands are the subcommands of "shuultuur zone".
func zoneCommands() []command {
	return []command{
		{name: "check", args: "[-origin NAME] FILE...", what: "check zone files and report every mistake", run: inJSON(zoneCheck), here: ofFiles},
		{name: "load", args: "[flags] FILE...", what: "write zone files to Redis", run: zoneLoad, here: ofFiles},
		{name: "export", args: "[flags] [ORIGIN...]", what: "print zones in Redis as zone files", run: zoneExport, here: ofFiles},
		{name: "import", args: "CONFIG.json", what: "convert the settings of redins or z42", run: zoneImport, here: ofFiles},
		{name: "keygen", args: "[-dir DIR] ZONE", what: "make the keys that sign a zone", run: zoneKeygen, here: ofKeys},
		{name: "roll", args: "[-dir DIR] ZONE", what: "roll the key that the parent knows", run: zoneRoll, here: ofKeys},
		{name: "ds", args: "KEY...", what: "print the DS records for the parent zone", run: zoneDS, here: ofFiles},
		{name: "sign", args: "-key KEY ZONE FILE", what: "sign a zone file and print it", run: zoneSign, here: ofFiles},
	}
}

func zoneCommand(ctx context.Context, e env, args []string) int {
	return group(ctx, e, "zone", "Reads, checks, signs and stores zone files.", zoneCommands(), args)
}

const zoneCheckHelp = `
Reads zone files (RFC 1035 section 5) and prints what is wrong with each, with
file and line. An error keeps the zone from being served; a warning does not.
The origin is that of the flag, else the file's name without .zone. The exit
status is 1 when there is an error.`

func zoneCheck(_ context.Context, e env, args []string) int {
	f, parse := flags(e, "zone check", "[-origin NAME] FILE...", zoneCheckHelp)
	origin := f.String("origin", "", "`name` of the zone")
	if status := parse(args, 1, -1); status >= 0 {
		return status
	}
	if *origin != "" && f.NArg() > 1 {
		return reportMistake(e, f, "-origin is for one file")
	}
	status := 0
	for _, file := range f.Args() {
		name := *origin
		if name == "" {
			name = strings.TrimSuffix(filepath.Base(file), ".zone")
		}
		z, err := zone.ReadFile(file, name)
		if err != nil {
			fmt.Fprintln(e.stdout, err)
			status = 1
			continue
		}
		fatal := false
		for _, p := range zone.Check(z) {
			fmt.Fprintln(e.stdout, p)
			fatal = fatal || p.Fatal
		}
		if fatal {
			status = 1
			continue
		}
		info, err := compiled(z)
		if err != nil {
			return fail(e, err)
		}
		fmt.Fprintf(e.stdout, "%s: zone %s, serial %d: %d records at %d names\n", file, info.Origin, info.Serial, info.Records, info.Names)
	}
	return status
}

// compiled returns the description of a zone as it is served.
func compiled(z *zone.Zone) (zone.Info, error) {
	r := zone.NewResponder()
	if err := r.Replace(z); err != nil {
		return zone.Info{}, err
	}
	return r.Zone(z.Origin, netip.Addr{}).Info(), nil
}
