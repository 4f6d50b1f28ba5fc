package protocol

import "time"

const months = "janfebmaraprmayjunjulaugsepoctnovdec"

// Date parses a date of HTTP (RFC 9110 section 5.6.7): IMF-fixdate, the form of RFC 850 and
// that of asctime. Case does not matter. Anything else, such as another time zone than GMT, is
// invalid.
func Date(v []byte) (t time.Time, ok bool) {
	var day, month, year, clock int
	switch comma := index(v, ','); {
	case comma == 3 && len(v) == len("Sun, 06 Nov 1994 08:49:37 GMT"):
		if v[4] != ' ' || v[7] != ' ' || v[11] != ' ' || v[16] != ' ' || !zone(v[25:]) {
			return t, false
		}
		day, month, year, clock = number(v[5:7]), monthOf(v[8:11]), number(v[12:16]), clockOf(v[17:25])
	case comma > 3:
		v = v[comma+1:]
		if len(v) != len(" 06-Nov-94 08:49:37 GMT") || v[0] != ' ' || v[3] != '-' || v[7] != '-' || v[10] != ' ' || !zone(v[19:]) {
			return t, false
		}
		day, month, year, clock = number(v[1:3]), monthOf(v[4:7]), number(v[8:10]), clockOf(v[11:19])
		// A year more than 50 years ahead means the last one in the past with these digits.
		if now := time.Now().Year(); year >= 0 {
			if year += now / 100 * 100; year > now+50 {
				year -= 100
			}
		}
	case comma < 0 && len(v) == len("Sun Nov  6 08:49:37 1994"):
		if v[3] != ' ' || v[7] != ' ' || v[10] != ' ' || v[19] != ' ' {
			return t, false
		}
		if v[8] == ' ' {
			day = number(v[9:10])
		} else {
			day = number(v[8:10])
		}
		month, clock, year = monthOf(v[4:7]), clockOf(v[11:19]), number(v[20:24])
	default:
		return t, false
	}
	if day < 1 || day > 31 || month < 1 || year < 0 || clock < 0 {
		return t, false
	}
	t = time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if t.Day() != day { // the month has fewer days
		return time.Time{}, false
	}
	return t.Add(time.Duration(clock) * time.Second), true
}

// zone reports whether v is " GMT".
func zone(v []byte) bool {
	return len(v) == 4 && v[0] == ' ' && v[1]|0x20 == 'g' && v[2]|0x20 == 'm' && v[3]|0x20 == 't'
}

// clockOf returns the seconds since midnight of "08:49:37", -1 for other values.
func clockOf(v []byte) int {
	if len(v) != 8 || v[2] != ':' || v[5] != ':' {
		return -1
	}
	h, m, s := number(v[:2]), number(v[3:5]), number(v[6:])
	if h < 0 || h > 23 || m < 0 || m > 59 || s < 0 || s > 60 {
		return -1
	}
	return h*3600 + m*60 + s
}

func monthOf(v []byte) int {
	for i := 0; i < len(months); i += 3 {
		if v[0]|0x20 == months[i] && v[1]|0x20 == months[i+1] && v[2]|0x20 == months[i+2] {
			return i/3 + 1
		}
	}
	return -1
}

func number(v []byte) (n int) {
	for _, c := range v {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}

func index(v []byte, c byte) int {
	for i := range v {
		if v[i] == c {
			return i
		}
	}
	return -1
}
