package engine

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Classes returns the classes in Suricata's classification.config with their priorities, for
// rule sets that come without that file.
func Classes() map[string]*Class {
	m := map[string]*Class{}
	for line := range strings.Lines(classes) {
		f := strings.SplitN(strings.TrimSpace(line), "|", 3)
		if len(f) == 3 {
			m[f[0]] = &Class{Name: f[0], Text: f[2], Priority: int(f[1][0] - '0')}
		}
	}
	return m
}

const classes = `not-suspicious|3|Not Suspicious Traffic
unknown|3|Unknown Traffic
bad-unknown|2|Potentially Bad Traffic
attempted-recon|2|Attempted Information Leak
successful-recon-limited|2|Information Leak
successful-recon-largescale|2|Large Scale Information Leak
attempted-dos|2|Attempted Denial of Service
successful-dos|2|Denial of Service
attempted-user|1|Attempted User Privilege Gain
unsuccessful-user|1|Unsuccessful User Privilege Gain
successful-user|1|Successful User Privilege Gain
attempted-admin|1|Attempted Administrator Privilege Gain
successful-admin|1|Successful Administrator Privilege Gain
rpc-portmap-decode|2|Decode of an RPC Query
shellcode-detect|1|Executable code was detected
string-detect|3|A suspicious string was detected
suspicious-filename-detect|2|A suspicious filename was detected
suspicious-login|2|An attempted login using a suspicious username was detected
system-call-detect|2|A system call was detected
tcp-connection|4|A TCP connection was detected
trojan-activity|1|A Network Trojan was detected
unusual-client-port-connection|2|A client was using an unusual port
network-scan|3|Detection of a Network Scan
denial-of-service|2|Detection of a Denial of Service Attack
non-standard-protocol|2|Detection of a non-standard protocol or event
protocol-command-decode|3|Generic Protocol Command Decode
web-application-activity|2|access to a potentially vulnerable web application
web-application-attack|1|Web Application Attack
misc-activity|3|Misc activity
misc-attack|2|Misc Attack
icmp-event|3|Generic ICMP event
inappropriate-content|1|Inappropriate Content was Detected
policy-violation|1|Potential Corporate Privacy Violation
default-login-attempt|2|Attempt to login by a default username and password
targeted-activity|1|Targeted Malicious Activity was Detected
exploit-kit|1|Exploit Kit Activity Detected
external-ip-check|2|Device Retrieving External IP Address Detected
domain-c2|1|Domain Observed Used for C2 Detected
pup-activity|2|Possibly Unwanted Program Detected
credential-theft|1|Successful Credential Theft Detected
social-engineering|2|Possible Social Engineering Attempted
coin-mining|2|Crypto Currency Mining Activity Detected
command-and-control|1|Malware Command and Control Activity Detected
`

// A Class is a line of classification.config.
type Class struct {
	Name, Text string
	Priority   int
}

// ReadClasses reads a classification.config.
func ReadClasses(name string, r io.Reader) (map[string]*Class, error) {
	classes := map[string]*Class{}
	s := bufio.NewScanner(r)
	for n := 1; s.Scan(); n++ {
		line := strings.TrimSpace(s.Text())
		rest, ok := strings.CutPrefix(line, "config classification:")
		if !ok {
			continue
		}
		f := strings.SplitN(rest, ",", 3)
		if len(f) != 3 {
			return nil, fmt.Errorf("%s:%d: %q is not name,text,priority", name, n, rest)
		}
		p, err := strconv.Atoi(strings.TrimSpace(f[2]))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: priority %q is not a number", name, n, f[2])
		}
		k := strings.TrimSpace(f[0])
		classes[strings.ToLower(k)] = &Class{Name: k, Text: strings.TrimSpace(f[1]), Priority: p}
	}
	return classes, s.Err()
}
