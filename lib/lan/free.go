package lan

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"shuultuur/lib/atomicfile"
)

// These files tell the programs not to serve names on port 53. They go on with what else they do: this
// machine still finds names by systemd-resolved, and dnsmasq still gives addresses to devices.
const (
	resolvedFile = "etc/systemd/resolved.conf.d/shuultuur.conf"
	dnsmasqFile  = "etc/dnsmasq.d/shuultuur.conf"
	resolvFile   = "etc/resolv.conf"
	stubFile     = "stub-resolv.conf"
)

// ErrRight says that this user may not move a program aside.
var ErrRight = errors.New("only the administrator of this machine may free port 53: sudo shuultuur setup -free-port53")

// freeTime is how long a program that starts again may keep the port.
const freeTime = 5 * time.Second

// Free moves the programs aside that have port 53 of an address, and calls works, which tests whether
// names can be served there now. If one of this fails, everything is put back. undo puts it back later.
func (m Machine) Free(ctx context.Context, addr netip.Addr, works func(context.Context) error) (undo func(context.Context) error, err error) {
	var steps []func(context.Context) error
	undo = func(ctx context.Context) error {
		var errs []error
		for _, step := range slices.Backward(steps) {
			errs = append(errs, step(ctx))
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, undo(context.WithoutCancel(ctx)))
		}
	}()
	moved := map[string]bool{}
	for _, h := range m.Holders(53) {
		if moved[h.Program] || !h.Blocks(addr) && h.Program != resolved {
			continue
		}
		moved[h.Program] = true
		back, err := m.moveAside(ctx, h)
		if back != nil {
			steps = append(steps, back)
		}
		if err != nil {
			return undo, fmt.Errorf("moving %s aside: %w", h, err)
		}
	}
	if err := m.waitFree(ctx, addr); err != nil {
		return undo, err
	}
	if err := works(ctx); err != nil {
		return undo, fmt.Errorf("names are not served on port 53: %w", err)
	}
	return undo, nil
}

// moveAside tells one program not to use port 53. back tells it to do so again; it is nil if nothing
// was changed.
func (m Machine) moveAside(ctx context.Context, h Holder) (back func(context.Context) error, err error) {
	file, text, service := resolvedFile, "# Shuultuur serves names on port 53. Delete this file and restart systemd-resolved to undo it.\n[Resolve]\nDNSStubListener=no\n", resolved
	switch h.Program {
	case resolved:
	case dnsmasq:
		file, text, service = dnsmasqFile, "# Shuultuur serves names on port 53. Delete this file and restart dnsmasq to undo it.\nport=0\n", dnsmasq
	default:
		return nil, errors.New("stop it by hand, and look again")
	}
	path := m.path(file)
	if err := m.write(path, text); err != nil {
		return nil, err
	}
	link := ""
	if service == resolved {
		link, err = m.relink()
	}
	back = func(ctx context.Context) error {
		errs := []error{os.Remove(path)}
		if link != "" {
			errs = append(errs, replaceLink(m.path(resolvFile), link))
		}
		return errors.Join(append(errs, m.run(ctx, "systemctl", "restart", service))...)
	}
	if err != nil {
		return back, err
	}
	return back, m.run(ctx, "systemctl", "restart", service)
}

func (m Machine) write(path, text string) error {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = atomicfile.WriteBytes(path, 0o644, []byte(text))
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return ErrRight
	}
	return err
}

// relink lets programs of this machine ask the name servers of the network where they asked the stub,
// and returns where the link led, "" if it stays.
func (m Machine) relink() (was string, err error) {
	path := m.path(resolvFile)
	was, err = os.Readlink(path)
	if err != nil || filepath.Base(was) != stubFile {
		return "", nil // a file of somebody else
	}
	return was, replaceLink(path, strings.TrimSuffix(was, stubFile)+"resolv.conf")
}

// replaceLink makes a link lead elsewhere, in one step.
func replaceLink(path, to string) error {
	next := path + ".shuultuur"
	_ = os.Remove(next) // left by a crash
	if err := os.Symlink(to, next); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// waitFree waits until nobody has port 53 of an address.
func (m Machine) waitFree(ctx context.Context, addr netip.Addr) error {
	ctx, stop := context.WithTimeout(ctx, freeTime)
	defer stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		all := m.Holders(53)
		i := slices.IndexFunc(all, func(h Holder) bool { return h.Blocks(addr) })
		if i < 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("port 53 is still in use by %s", all[i])
		case <-tick.C:
		}
	}
}
