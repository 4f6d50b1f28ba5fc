package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"shuultuur/lib/platform"
)

// ThisMachine is the machine that the program runs on.
type ThisMachine struct{}

// System implements Machine.
func (ThisMachine) System() string { return runtime.GOOS }

// Now implements Machine.
func (ThisMachine) Now() time.Time { return time.Now() }

// Files implements Machine. Go has raised the soft limit already.
func (ThisMachine) Files() (soft, hard uint64, err error) {
	if soft, hard, err = platform.Files(); err != nil {
		err = fmt.Errorf("getrlimit: %w", err)
	}
	return soft, hard, err
}

// syncs is the number of timed writes: enough for a median, few enough for a worn flash card.
const syncs = 5

// Disk implements Machine. It writes some KiB to a file in dir and removes it.
func (ThisMachine) Disk(dir string) (Disk, error) {
	if dir == "" {
		dir = "."
	}
	there := dir
	for {
		_, err := os.Stat(there)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || there == filepath.Dir(there) {
			return Disk{}, err
		}
		there = filepath.Dir(there)
	}
	d, err := space(there)
	if err != nil {
		return Disk{}, fmt.Errorf("asking how much room there is in %s: %w", there, err)
	}
	d.Card = isCard(there)
	if there != dir {
		d.SyncUntried = "the folder is not there yet"
		return d, nil
	}
	if d.Sync, err = syncTime(there); err != nil {
		d.SyncUntried = "cannot write there: " + err.Error()
	}
	return d, nil
}

func syncTime(dir string) (time.Duration, error) {
	f, err := os.CreateTemp(dir, ".doctor-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	took := make([]time.Duration, 0, syncs)
	block := make([]byte, 4096)
	for began := time.Now(); len(took) < syncs && time.Since(began) < 2*time.Second; {
		start := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// Bind implements Machine.
func (ThisMachine) Bind(addr string) error {
	u, err := net.ListenPacket("udp", addr)
	if err != nil {
		return err
	}
	defer u.Close()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return l.Close()
}

// Addresses implements Machine.
func (ThisMachine) Addresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of this machine: %w", err)
	}
	var addrs []netip.Addr
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			addrs = append(addrs, p.Addr().Unmap())
		}
	}
	return addrs, nil
}

// These bound time and output of a command. A firewall with its own list of addresses may print
// a lot.
const (
	commandTime = 3 * time.Second
	commandMost = 4 << 20
)

// Output implements Machine. It also searches the folders of the system's
// programs, because few users have them in PATH.
func (ThisMachine) Output(ctx context.Context, name string, args ...string) (string, error) {
	path, err := exec.LookPath(name)
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if err == nil {
			break
		}
		path, err = exec.LookPath(filepath.Join(dir, name))
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
	}
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	out, complaint := boundedBuffer{most: commandMost}, boundedBuffer{most: 4 << 10}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &complaint, time.Second
	err = cmd.Run()
	if ctx.Err() != nil {
		return "", fmt.Errorf("%s has not answered within %v", name, commandTime)
	}
	if err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(complaint.String()), "\n")
		if first == "" {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		return "", fmt.Errorf("%s: %w: %q", name, err, first)
	}
	return out.String(), nil
}

// boundedBuffer is a buffer that refuses to exceed most bytes. The buffer is not
// embedded: io.Copy would use its ReadFrom and bypass Write.
type boundedBuffer struct {
	buffer bytes.Buffer
	most   int
}

func (b *boundedBuffer) String() string { return b.buffer.String() }

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.buffer.Len()+len(p) > b.most {
		return 0, fmt.Errorf("more than %d bytes printed", b.most)
	}
	return b.buffer.Write(p)
}
