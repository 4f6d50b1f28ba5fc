package comparison

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"

	"shuultuur/whatif"
)

// A logName says where a program writes its log.
type logName struct {
	key    *regexp.Regexp // the option that names it in the configuration, as its first group
	beside string         // its place beside the configuration
	usual  string         // where it is if the configuration is installed and does not say
}

// logNames has the programs whose log we read. [whatif.Source] has its formats.
var logNames = map[string]logName{
	"squid":        {key: regexp.MustCompile(`(?m)^\s*access_log\s+(?:(?:stdio|daemon):)?(/\S+)`), usual: "/var/log/squid/access.log"},
	"e2guardian":   {key: regexp.MustCompile(`(?m)^\s*loglocation\s*=\s*'([^']+)'`), usual: "/var/log/e2guardian/access.log"},
	"dansguardian": {key: regexp.MustCompile(`(?m)^\s*loglocation\s*=\s*'([^']+)'`), usual: "/var/log/dansguardian/access.log"},
	"adguardhome":  {beside: "data/querylog.json"},
	"pihole":       {key: regexp.MustCompile(`(?m)^\s*dnsmasq\s*=\s*"(/[^"]+)"`), usual: "/var/log/pihole/pihole.log"},
	"dnsmasq":      {key: regexp.MustCompile(`(?m)^\s*log-facility\s*=\s*(/\S+)`)},
	"unbound":      {key: regexp.MustCompile(`(?m)^\s*logfile\s*:\s*"?(/[^"\s]+)`)},
}

// newest is how many bytes of a log are read: those at its end.
const newest = 64 << 20

// openLog opens the log of a program whose configuration is at path, at the beginning of a line. If
// there is none, the error is [fs.ErrNotExist].
func openLog(program, path string) (*os.File, error) {
	file := findLog(program, path)
	if file == "" {
		return nil, fs.ErrNotExist
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("reading the log that %s names: %w", program, err)
	}
	if info, err := f.Stat(); err != nil || info.Size() == 0 {
		_ = f.Close()
		return nil, errors.Join(err, fs.ErrNotExist)
	}
	return f, nil
}

// findLog returns the log that the configuration at path names, or the usual one of an installed
// configuration; "" if there is none.
func findLog(program, path string) (file string) {
	n, ok := logNames[program]
	if !ok {
		return ""
	}
	dir := path
	if exists(path) {
		dir = filepath.Dir(path)
	}
	if n.beside != "" && exists(filepath.Join(dir, n.beside)) {
		return filepath.Join(dir, n.beside)
	}
	if n.key != nil {
		_ = readTexts(path, func(text []byte) {
			if m := n.key.FindSubmatch(text); m != nil && file == "" {
				file = string(m[1])
			}
		})
	}
	if abs, err := filepath.Abs(dir); file == "" && err == nil && (abs == "/etc/"+program || n.usual != "" && filepath.HasPrefix(abs, "/etc/"+program+"/")) {
		file = n.usual
	}
	if file == "" || !exists(file) {
		return ""
	}
	return file
}

// logEntries yields the newest requests of a log.
func logEntries(ctx context.Context, f *os.File) iter.Seq2[whatif.Entry, error] {
	return func(yield func(whatif.Entry, error) bool) {
		r, err := end(f)
		if err != nil {
			yield(whatif.Entry{}, err)
			return
		}
		s := &whatif.Source{Files: []string{"-"}, Stdin: r}
		for e, err := range s.Entries(ctx) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// end returns the newest lines of a file.
func end(f *os.File) (io.Reader, error) {
	info, err := f.Stat()
	if err != nil || info.Size() <= newest {
		return f, err
	}
	if _, err := f.Seek(-newest, io.SeekEnd); err != nil {
		return nil, err
	}
	r := bufio.NewReader(f)
	_, err = r.ReadSlice('\n')
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.ReadSlice('\n')
	}
	return r, err
}
