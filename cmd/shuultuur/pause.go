package main

import (
	"context"
	"fmt"
	"time"
)

const pauseHelp = `
Has the running gateway let filtering rest: for everybody, or for WHO, an
address, a network, a user or a group of the settings. TIME is 30s, 5m or 1h,
24h at most, or tomorrow. Without arguments it says for whom filtering is paused.

What rules would block, warn of or send elsewhere passes meanwhile. Faulty
certificates, limits, quotas and private networks are guarded as ever.`

const resumeHelp = `
Ends the pause for WHO, or all pauses, before their time.`

func pause(ctx context.Context, e env, args []string) int {
	return setPause(ctx, e, "pause", "[-json] [-config FILE] [TIME [WHO]]", pauseHelp, args, 2, func(given []string) (length, who string) {
		given = append(given, "", "")
		return given[0], given[1]
	})
}

func resume(ctx context.Context, e env, args []string) int {
	return setPause(ctx, e, "resume", "[-json] [-config FILE] [WHO]", resumeHelp, args, 1, func(given []string) (length, who string) {
		given = append(given, "")
		return "0s", given[0]
	})
}

// setPause asks the gateway to pause or resume as the arguments say, and prints for whom
// filtering is paused then. There may be at most most arguments.
func setPause(ctx context.Context, e env, name, usage, help string, args []string, most int, mean func([]string) (length, who string)) int {
	f, parse := flags(e, name, usage, help)
	config := f.String("config", "", "settings `file` of the gateway")
	asJSON := f.Bool("json", false, "print JSON")
	if status := parse(args, 0, most); status >= 0 {
		return status
	}
	length, who := mean(f.Args())
	admin, err := e.gateway(*config)
	if err != nil {
		return fail(e, err)
	}
	all, err := admin.Pause(ctx, who, length)
	if err != nil {
		return fail(e, err)
	}
	if *asJSON {
		return printJSON(e, all)
	}
	for _, p := range all {
		fmt.Fprintf(e.stdout, "filtering is paused for %s until %s, %v\n", printable(p.Whom()), p.Until.Local().Format(time.DateTime), time.Until(p.Until).Round(time.Second))
	}
	if len(all) == 0 {
		fmt.Fprintln(e.stdout, "filtering is on for everybody")
	}
	return 0
}
