//go:build !small

package rules

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"shuultuur/check/signature"
	"shuultuur/lib/suricata/engine"
	"shuultuur/tool/capture"
	"shuultuur/tool/replay"
)

// Read runs the rules of run on captures, HAR files, and requests as sent with or without their
// responses.
func Read(ctx context.Context, run *capture.Run, files []string) error {
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		head := make([]byte, 4)
		n, _ := io.ReadFull(f, head)
		if err := f.Close(); err != nil {
			return err
		}
		if capture.IsCapture(head[:n]) {
			err = run.File(ctx, name)
		} else {
			var data []byte
			if data, err = os.ReadFile(name); err == nil {
				err = run.Messages(data)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return run.Close()
}

// worthCores is the size in bytes from which captures are read by several
// cores.
const worthCores = 16 << 20

// A Replay tries rules on captures.
type Replay struct {
	Set
	Capture        capture.Config
	Eve, Fast      string // files for records as JSON lines and for alerts as text; "-" for Stdout
	Out            string // folder for both, and for the datasets that rules save
	Progress       bool   // report the progress on Stderr though it is no terminal
	Stdout, Stderr io.Writer
}

// Run reads the captures, and writes a summary to Stderr.
func (p *Replay) Run(ctx context.Context, files ...string) (err error) {
	c := engine.Config{Packets: true, Prevent: p.Capture.Prevent}
	if p.Out != "" {
		c.Saves = filepath.Join(p.Out, "datasets")
	}
	en, err := p.Compile(Private, c, p.Stderr)
	if err != nil {
		return err
	}
	if p.Out != "" {
		if err := os.MkdirAll(p.Out, 0o755); err != nil {
			return err
		}
		p.Eve, p.Fast = filepath.Join(p.Out, "eve.json"), filepath.Join(p.Out, "fast.log")
	}
	if p.Eve == "" && p.Fast == "" {
		p.Fast = "-"
	}
	var sinks [2]io.Writer
	for i, name := range []string{p.Eve, p.Fast} {
		switch name {
		case "":
		case "-":
			sinks[i] = p.Stdout
		default:
			f, err := os.Create(name)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, f.Close()) }()
			sinks[i] = f
		}
	}
	out := capture.NewOutput(sinks[0], sinks[1])
	if p.Suricata != "" {
		s, err := signature.ReadSuricata(p.Suricata)
		if err != nil {
			return err
		}
		out.Short, out.Forwarded = s.Short, (*capture.Forwarded)(s.Forwarded)
	}
	var total int64
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		total += info.Size()
	}
	if total >= worthCores {
		p.Capture.Cores = runtime.GOMAXPROCS(0)
	}
	run := capture.New(p.Capture, en, out)
	read := func() error {
		for _, name := range files {
			if err := run.File(ctx, name); err != nil {
				return err
			}
		}
		return run.Close()
	}
	if err := replay.Watched(p.Stderr, p.Progress, func() replay.Meter { return replay.Meter{Done: run.Read(), Total: total} }, read); err != nil {
		return err
	}
	s := run.Stats()
	fmt.Fprintf(p.Stderr, "%d packets (%d broken), %d connections, %d bytes of payload, %d rules, %d alerts\n",
		s.Packets(), s.Broken(), s.Flows(), s.Payload(), en.Rules(), s.Alerts())
	return en.State().Save()
}
