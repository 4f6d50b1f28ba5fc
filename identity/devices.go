package identity

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"shuultuur/identity/session"
	"shuultuur/lib/setting"
)

// maxDevices bounds what is known of devices.
const maxDevices = 200_000

// Devices watches which devices have which addresses, by leases and by the neighbours that the
// system knows, and tells a table of sessions: the session of a person ends when another device
// has the address. Make one with [WatchDevices].
type Devices struct {
	files    []string
	sessions *session.Table
	log      *slog.Logger
	look     func() (map[netip.Addr]string, error) // neighbours

	stamps string
	leases map[netip.Addr]string
	failed string // the fault that the log has

	stop chan struct{}
	done sync.WaitGroup
}

// Neighbours returns the machines that share a link with this one, with their hardware addresses; none
// where the system does not tell.
func Neighbours() (map[netip.Addr]string, error) { return neighbours() }

// WatchDevices watches until Close.
func WatchDevices(leases []setting.Source, sessions *session.Table, log *slog.Logger) *Devices {
	d := &Devices{sessions: sessions, log: log, look: neighbours, stop: make(chan struct{})}
	for _, f := range leases {
		d.files = append(d.files, string(f))
	}
	d.done.Go(d.run)
	return d
}

// Close ends watching.
func (d *Devices) Close() {
	close(d.stop)
	d.done.Wait()
}

func (d *Devices) run() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		d.tell()
		select {
		case <-d.stop:
			return
		case <-tick.C:
		}
	}
}

// tell looks once, and tells the table.
func (d *Devices) tell() {
	d.readLeases()
	near, err := d.look()
	if err != nil {
		if text := err.Error(); text != d.failed {
			d.failed = text
			d.log.Warn("the neighbours of this machine are not known: only leases show when another device has an address", "error", err)
		}
		near = nil
	}
	if err := d.sessions.See(session.NewDevices(d.leases, near)); err != nil {
		d.log.Error("sessions of addresses that other devices have do not end", "error", err)
	}
}

// readLeases reads the files if one of them has changed. A file that cannot be read is reported
// by [Names], and takes no session away.
func (d *Devices) readLeases() {
	var stamps strings.Builder
	for _, f := range d.files {
		if info, err := os.Stat(f); err == nil {
			fmt.Fprintln(&stamps, info.Size(), info.ModTime().UnixNano())
		} else {
			fmt.Fprintln(&stamps, err)
		}
	}
	if stamps.String() == d.stamps {
		return
	}
	d.stamps = stamps.String()
	d.leases = map[netip.Addr]string{}
	for _, f := range d.files {
		data, err := readNamesFile(f)
		if err != nil {
			continue
		}
		ReadNames(data, func(n Device) {
			if _, there := d.leases[n.Addr]; n.MAC != "" && (there || len(d.leases) < maxDevices) {
				d.leases[n.Addr] = n.MAC
			}
		})
	}
}
