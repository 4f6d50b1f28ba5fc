package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"shuultuur/event"
	"shuultuur/filter"
)

// A Record is the record of transactions as pages show it, with names of devices.
type Record struct {
	event.Reader
	// Names returns the names of the devices at some addresses; nil if there is no source of names.
	Names func(ctx context.Context, addrs []netip.Addr) map[netip.Addr]string
}

// Call adds the names of clients.
func (e *Record) Call(ctx context.Context, clients []event.Tally) {
	if e.Names == nil {
		return
	}
	addrs := make([]netip.Addr, len(clients))
	for i := range clients {
		addrs[i], _ = netip.ParseAddr(clients[i].Name) // the zero Addr has no name
	}
	names := e.Names(ctx, addrs)
	for i := range clients {
		clients[i].Called = names[addrs[i]]
	}
}

// StillNamed says where the settings in use name a person whose data is erased.
type StillNamed struct{ Err error }

func (e StillNamed) Error() string { return e.Err.Error() }

func (e StillNamed) Unwrap() error { return e.Err }

// MaxAsk is the time for all queries of a request to the record.
const MaxAsk = 10 * time.Second

// maxWhat is how many bytes of a URL are shown.
const maxWhat = 300

// An EventRow is a row as it is shown.
type EventRow struct {
	*event.Row
	Listed bool   // a list has its category, so that an exception may help
	Name   string // of the client's device, "" when it is not known

	Again    string // the page that shows it; "" for a page without buttons
	CanBlock bool   // there is a list
	New      bool   // it has just been recorded
	Times    int    // how often the same came within a minute
}

// ClientName returns who the client is: the person, or the address with the device.
func (s EventRow) ClientName() string {
	if s.Name == s.User {
		return s.Who()
	}
	return event.WithDeviceName(s.Who(), s.Name)
}

// Refused reports whether the row is of something blocked or warned of.
func (s EventRow) Refused() bool { return s.Action == filter.Block || s.Action == filter.Warn }

// Label returns the URL or name, shortened to what fits on a page.
func (s EventRow) Label() string {
	what := s.What()
	if len(what) > maxWhat {
		what = strings.ToValidUTF8(what[:maxWhat], "") + "…"
	}
	return what
}

// StatusOfRecord returns the status for an error of the record.
func StatusOfRecord(err error) int {
	if errors.Is(err, ErrTwoPeople) {
		return http.StatusForbidden
	}
	return http.StatusServiceUnavailable
}

// TooLong returns advice for a query that the record did not answer in time.
func TooLong(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("the record is too long to be read in %v; ask for less, or with shuultuur events", MaxAsk)
	}
	return err
}

// Quoted writes a value so that [event.ParseFilter] reads it as one.
func Quoted(v string) string {
	if strings.ContainsAny(v, " \t\r\n,\"") {
		return `"` + strings.ReplaceAll(v, `"`, "") + `"`
	}
	return v
}
