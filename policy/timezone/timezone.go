// Package timezone finds time zones on machines without zone files, such as
// containers and small devices.
//
// The program carries the zones of the IANA database in one compressed file, which
// "go run ./policy/timezone/pack" makes of those that come with Go. It takes the
// place of the package time/tzdata, which is nine times as large.
package timezone

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/andybalholm/brotli"
)

// Packed is the name of the file that the folder pack writes: for each zone a line
// with its names, the length of its data in four bytes (big-endian), and its data
// as in RFC 9636. All of it is compressed with Brotli.
const Packed = "zones.br"

//go:embed zones.br
var packed []byte

// Load returns the zone with an IANA name such as "Asia/Tashkent". The files of the
// machine come first, as they may be newer.
func Load(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err == nil {
		return zone, nil
	}
	return carried(name)
}

// UseTZ sets the local zone by the environment variable TZ where the machine has no
// file for it. It is called before anything else runs.
func UseTZ() {
	if zone := missing(os.Getenv("TZ"), time.LoadLocation); zone != nil {
		time.Local = zone
	}
}

// missing returns the zone that TZ names if files do not have it but the program does,
// else nil.
func missing(tz string, files func(name string) (*time.Location, error)) *time.Location {
	name := strings.TrimPrefix(tz, ":")
	if _, err := files(name); err == nil {
		return nil
	}
	zone, err := carried(name)
	if err != nil {
		return nil
	}
	return zone
}

// carried returns a zone of the program's own. It unpacks them for each call (2 ms):
// settings name few zones, and most machines have files.
func carried(name string) (*time.Location, error) {
	r := bufio.NewReader(brotli.NewReader(bytes.NewReader(packed)))
	for {
		names, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("time zone %q is not known", name)
		}
		if err != nil {
			return nil, fmt.Errorf("unpacking time zones: %w", err)
		}
		var size [4]byte
		if _, err := io.ReadFull(r, size[:]); err != nil {
			return nil, fmt.Errorf("unpacking time zones: %w", err)
		}
		length := int(binary.BigEndian.Uint32(size[:]))
		if !slices.Contains(strings.Fields(names), name) {
			if _, err := r.Discard(length); err != nil {
				return nil, fmt.Errorf("unpacking time zones: %w", err)
			}
			continue
		}
		data := make([]byte, length)
		if _, err := io.ReadFull(r, data); err != nil {
			return nil, fmt.Errorf("unpacking time zones: %w", err)
		}
		return time.LoadLocationFromTZData(name, data)
	}
}
