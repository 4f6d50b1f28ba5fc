package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"shuultuur/admin/backup"
	"shuultuur/engine"
	"shuultuur/lib/atomicfile"
	"shuultuur/lib/problem"
	"shuultuur/text"
)

// This file restores a backup into a gateway that runs. The files of a data folder that is in use cannot
// be replaced, so that the backup, once it has been checked, waits in the folder. The gateway ends, and
// the next one, of the same process, restores it before it begins. If that cannot start with it, such as
// because another program has its port, what was replaced is put back.

// restore has the gateway end and start again with a backup. does says what it does.
func (g *Gateway) restore(ctx context.Context, r io.Reader, passphrase, address string) (does []string, err error) {
	plain, err := backup.Open(r, passphrase)
	if err != nil {
		return nil, err
	}
	b, err := backup.Read(plain)
	if err != nil {
		return nil, err
	}
	does, err = engine.CheckBackup(ctx, b, g.file, address)
	if err != nil {
		return nil, err
	}
	g.again.mu.Lock()
	defer g.again.mu.Unlock()
	if g.again.ended() {
		return nil, errors.New("another backup is being restored; wait until the gateway has started again")
	}
	data := string(g.engine.Load().Settings.Data)
	if err := atomicfile.Write(filepath.Join(data, engine.RestoreFile), 0o600, func(w *os.File) error { return b.Pack(w) }); err != nil {
		return nil, fmt.Errorf("keeping the backup until the gateway starts again: %w", err)
	}
	g.log.Warn("a backup is restored; the gateway starts again with it")
	close(g.again.c)
	return append([]string{text.Mark("The backup is good. The gateway starts again with it.")}, does...), nil
}

// writeDown writes to disk what parts keep in memory: what a backup of a gateway that runs should have.
func writeDown(e *engine.Engine) (err error) {
	if s, ok := e.State.(interface{ Keep() error }); ok {
		err = s.Keep()
	}
	if s := e.Checks.Signature; s != nil {
		err = errors.Join(err, s.Keep())
	}
	return err
}

// checkBackup says whether the gateway could start with a backup, and what is in it.
func (g *Gateway) checkBackup(ctx context.Context, r io.Reader, passphrase, address string) (says []string, err error) {
	plain, err := backup.Open(r, passphrase)
	if err != nil {
		return nil, err
	}
	b, err := backup.Read(plain)
	if err != nil {
		return nil, err
	}
	remarks, err := engine.CheckBackup(ctx, b, g.file, address)
	if err != nil {
		return nil, err
	}
	return append([]string{text.Mark("The backup is good: the gateway can start with it.")}, remarks...), nil
}

// StartsAgain reports whether Run has ended because a backup waits to be restored: then [New] restores
// it.
func (g *Gateway) StartsAgain() bool { return g.again.ended() }

// Restart has the gateway end and start again in the same process, for changes of the settings that
// need it. The text on disk is checked first: a gateway that could not start stays.
func (g *Gateway) Restart() error {
	text, err := os.ReadFile(g.file)
	if err != nil {
		return err
	}
	if err := g.checkText(context.Background(), text); err != nil {
		return err
	}
	g.again.mu.Lock()
	defer g.again.mu.Unlock()
	if !g.again.ended() {
		g.log.Warn("the gateway starts again, for its settings")
		close(g.again.c)
	}
	return nil
}

// waiting returns which changes of the settings wait for a restart.
func (g *Gateway) waiting() (all []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.problems {
		if p.Kind == problem.Restart {
			all = append(all, p.Text)
		}
	}
	return all
}

// An again is the request to end and to start again.
type again struct {
	mu sync.Mutex    // held by whom makes it
	c  chan struct{} // closed when it is made
}

func (a *again) ended() bool {
	select {
	case <-a.c:
		return true
	default:
		return false
	}
}

// newRestored is New with the backup that waits. Without one, or if it is of no use, the gateway begins
// with what is there.
func newRestored(ctx context.Context, file string, log *slog.Logger) (*Gateway, error) {
	if err := putReplacedBackAtStart(file); err != nil {
		return nil, err
	}
	undo, err := engine.RestorePending(file)
	var why string
	if err != nil {
		log.Error("a backup was not restored", "error", err)
		why = "a backup was not restored: " + err.Error()
	}
	g, err := build(ctx, file, log)
	if err != nil && undo != nil {
		log.Error("the gateway cannot start with the backup that was restored; what was there before is put back", "error", err)
		why = "a backup was not restored, because the gateway could not start with it: " + err.Error()
		if err := undo(); err != nil {
			return nil, fmt.Errorf("putting back what a backup has replaced (%s): %w", why, err)
		}
		g, err = build(ctx, file, log)
	}
	if err == nil && why != "" {
		g.notRestored = why
	}
	return g, err
}
