package web

import (
	"fmt"
	"reflect"
	"strconv"
	"time"

	"shuultuur/text"
)

// BriefTime writes a time as a figure.
func BriefTime(d time.Duration) string {
	switch {
	case d == 0:
		return "–"
	case d < time.Millisecond:
		return strconv.FormatInt(d.Microseconds(), 10) + " µs"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
}

// Clock writes a time of this machine's zone in a layout of package time; the
// zero time is "".
func Clock(t time.Time, layout string) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(layout)
}

// ago says how long ago something was, in the language of t; the zero time is "".
func ago(t *text.Texts, at time.Time) string {
	switch d := time.Since(at); {
	case at.IsZero():
		return ""
	case d < time.Minute:
		return t.Say("just now")
	case d < time.Hour:
		return t.Say("{n} min ago", "n", strconv.Itoa(int(d.Minutes())))
	case d < 24*time.Hour:
		return t.Say("{n} h ago", "n", strconv.Itoa(int(d.Hours())))
	}
	return at.Local().Format("2006-01-02 15:04")
}

// wholeNumber returns v as a number.
func wholeNumber(v any) int64 {
	r := reflect.Indirect(reflect.ValueOf(v))
	switch {
	case r.CanInt():
		return r.Int()
	case r.CanUint():
		return int64(r.Uint())
	case r.CanFloat():
		return int64(r.Float())
	}
	return 0
}

// number writes a number with thin spaces between thousands.
func number(v any) string {
	n := wholeNumber(v)
	if n < 0 {
		return "-" + number(-n)
	}
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return digits
}

// size writes a number of bytes in a form for people.
func size(v any) string {
	f := float64(wholeNumber(v))
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if f < 1024 {
			if unit == "B" || f >= 100 {
				return fmt.Sprintf("%.0f %s", f, unit)
			}
			return fmt.Sprintf("%.1f %s", f, unit)
		}
		f /= 1024
	}
	return fmt.Sprintf("%.1f TiB", f)
}
