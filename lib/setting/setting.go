// Package setting provides the value types of the settings file: durations, sizes, counts,
// files, and values that may be one or many. Every package declares its own Config with them,
// so that values are written in the same way everywhere and mistakes get the same messages.
//
// The YAML reader fills a Config, whose values validate themselves. [Locate] makes relative
// paths relative to the folder of the settings file, and [Files] lists every file that a
// Config names, for watching and for digests. A package returns a value that it cannot accept
// as an [Error] with the path of the key ([At]); the reader of the file adds the line.
//
// The word "off" means none: no limit, no waiting time, no file. An omitted value is the
// default, which its package supplies with Or.
package setting

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// off means "none" in the settings; offInt is how it is stored, because the zero value means
// "omitted".
const (
	offWord = "off"
	offInt  = -1
)

// A Duration is a length of time: "90s", "15m", "1h30m", "30d", or "off". The zero value means
// that the setting was omitted.
type Duration time.Duration

// Or returns the duration: def if the setting was omitted, 0 if it is off.
func (d Duration) Or(def time.Duration) time.Duration {
	switch d {
	case 0:
		return def
	case offInt:
		return 0
	}
	return time.Duration(d)
}

// Off reports whether the setting is "off" or 0.
func (d Duration) Off() bool { return d == offInt }

// UnmarshalText reads a length of time, which is not negative.
func (d *Duration) UnmarshalText(text []byte) error {
	s := string(text)
	if s == offWord {
		*d = offInt
		return nil
	}
	rest, total := s, time.Duration(0)
	if n, after, ok := strings.Cut(s, "d"); ok {
		days, err := strconv.ParseUint(n, 10, 16)
		if err != nil {
			return badDuration(s)
		}
		total, rest = time.Duration(days)*24*time.Hour, after
	}
	if rest != "" || s == "" {
		v, err := time.ParseDuration(rest)
		if err != nil || v < 0 || total+v < 0 || rest[0] == '+' {
			return badDuration(s)
		}
		total += v
	}
	*d = Duration(total)
	if total == 0 {
		*d = offInt
	}
	return nil
}

func badDuration(s string) error {
	return fmt.Errorf("%.80q is not a duration: write 90s, 15m, 36h or 30d", s)
}

// MarshalText writes d in the form of the settings.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d Duration) String() string {
	if d == offInt {
		return offWord
	}
	const day = Duration(24 * time.Hour)
	var b strings.Builder
	if d >= day {
		fmt.Fprintf(&b, "%dd", d/day)
		d %= day
	}
	if d > 0 || b.Len() == 0 {
		s := time.Duration(d).String() // 1h30m0s
		if strings.HasSuffix(s, "m0s") {
			s = s[:len(s)-2]
		}
		if strings.HasSuffix(s, "h0m") {
			s = s[:len(s)-2]
		}
		b.WriteString(s)
	}
	return b.String()
}

// A Size is a number of bytes: "16MiB" (1,024²), "500MB" (1,000²), "100KB", a plain number, or
// "off". The zero value means that the setting was omitted.
type Size int64

// NoSize is the size of what is off.
const NoSize Size = offInt

// Or returns the number of bytes: def if the setting was omitted, 0 if it is off.
func (s Size) Or(def int64) int64 {
	switch s {
	case 0:
		return def
	case offInt:
		return 0
	}
	return int64(s)
}

// Off reports whether the setting is "off" or 0.
func (s Size) Off() bool { return s == offInt }

var units = [...]struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"kB", 1e3}, {"B", 1},
}

// UnmarshalText reads a size, which is not negative.
func (s *Size) UnmarshalText(text []byte) error {
	if string(text) == offWord {
		*s = offInt
		return nil
	}
	number, unit := string(text), int64(1)
	for _, u := range units {
		if n, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimSuffix(n, " "), u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil || int64(n) > math.MaxInt64/unit {
		return fmt.Errorf("%.80q is not a size: write 100KB, 16MiB, 2GB or a number of bytes", text)
	}
	*s = Size(int64(n) * unit)
	if n == 0 {
		*s = offInt
	}
	return nil
}

// MarshalText writes s in the form of the settings.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s Size) String() string {
	if s == offInt {
		return offWord
	}
	best, short := strconv.FormatInt(int64(s), 10), int64(s)
	for _, u := range units {
		if n := int64(s) / u.bytes; s > 0 && n*u.bytes == int64(s) && n < short && u.name != "kB" {
			best, short = strconv.FormatInt(n, 10)+u.name, n
		}
	}
	return best
}

// A Count is a whole number, or "off". The zero value means that the setting was omitted.
type Count int

// Or returns the number: def if the setting was omitted, 0 if it is off.
func (c Count) Or(def int) int {
	switch c {
	case 0:
		return def
	case offInt:
		return 0
	}
	return int(c)
}

// Off reports whether the setting is "off" or 0.
func (c Count) Off() bool { return c == offInt }

// UnmarshalText reads a count, which is not negative.
func (c *Count) UnmarshalText(text []byte) error {
	if string(text) == offWord {
		*c = offInt
		return nil
	}
	n, err := strconv.ParseUint(string(text), 10, 31)
	if err != nil {
		return fmt.Errorf("%.80q is not a count: write a whole number such as 100, or off", text)
	}
	*c = Count(n)
	if n == 0 {
		*c = offInt
	}
	return nil
}

// MarshalYAML writes c in the form of the settings.
func (c Count) MarshalYAML() (any, error) {
	if c == offInt {
		return offWord, nil
	}
	return int(c), nil
}

func (c Count) String() string {
	if c == offInt {
		return offWord
	}
	return strconv.Itoa(int(c))
}

// OneOrMore is a list that may be written as a single value.
type OneOrMore[T any] []T

// UnmarshalYAML reads a single value or a list. A single "off" is an empty list, not nil,
// which Or distinguishes from an omitted setting.
func (o *OneOrMore[T]) UnmarshalYAML(read func(any) error) error {
	var list []any
	if read(&list) == nil {
		var many []T
		err := read(&many)
		*o = append(OneOrMore[T]{}, many...)
		return err
	}
	var word string
	if read(&word) == nil && word == offWord {
		*o = OneOrMore[T]{}
		return nil
	}
	var one T
	if err := read(&one); err != nil {
		return err
	}
	*o = OneOrMore[T]{one}
	return nil
}

func (o OneOrMore[T]) mayBeOff() {}

// Or returns the list, or def if the setting was omitted.
func (o OneOrMore[T]) Or(def ...T) []T {
	if o == nil {
		return def
	}
	return o
}

// An Error is a mistake in the settings. Key is the path to it in the settings
// file, such as "policies[0].rules[2].action".
type Error struct {
	Key string
	Err error
}

func (e *Error) Error() string { return e.Key + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// At returns err as an error about key. An err about a key below this one keeps it:
// At("rules[2]", At("action", err)) is about "rules[2].action". Joined errors are each about
// key. A nil err gives nil.
func At(key string, err error) error {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // joined errors inside one mistake stay together
		var all []error
		for _, e := range many.Unwrap() {
			all = append(all, At(key, e))
		}
		return errors.Join(all...)
	}
	if inner, ok := err.(*Error); ok { //nolint:errorlint // not a wrapped one: the text around it would be lost
		if inner.Key != "" && inner.Key[0] != '[' {
			key += "."
		}
		return &Error{Key: key + inner.Key, Err: inner.Err}
	}
	return &Error{Key: key, Err: err}
}
