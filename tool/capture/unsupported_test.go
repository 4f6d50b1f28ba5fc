package capture

// unsupported are tests whose records differ, and why. docs/signatures.md
// explains them.
var unsupported = map[string]string{
	"bpf-command-line":                             "there is no BPF filter",
	"bug-2576-04":                                  "content of the raw stream is forgotten before the body that goes with it is complete",
	"bug-5464-verdict-02":                          "records hold no verdict",
	"bug-7199":                                     "a packet that a rule dropped is still tried on rules",
	"detect-app-layer-state-01":                    "app-layer-state is inactive",
	"detect-engine-proto":                          "data in a SYN is handed on one packet early",
	"http2-window-index":                           "WINDOW_UPDATE frames are counted for each stream otherwise",
	"ja4-rules-requires-off":                       "ja4 is on unless a suricata.yaml switches it off",
	"protocol-change-failed-event":                 "a change of protocol that fails is not noticed",
	"smb-eicar-file":                               "SMB is not inspected",
	"smb-eicar-file-nbss-more-ffsmb":               "SMB is not inspected",
	"smb-eicar-padding":                            "SMB is not inspected",
	"bug-6149-exception-policy-auto-ips":           "failures of Suricata are not simulated",
	"cond-log-http-testmyids":                      "there is no BPF filter",
	"dns/v2/dns-z-bit":                             "records of DNS have the form of Suricata 9",
	"exception-policy-applayer-01":                 "failures of Suricata are not simulated",
	"exception-policy-stream-reassembly-memcap-01": "failures of Suricata are not simulated",
	"exception-policy-stream-reassembly-memcap-04": "failures of Suricata are not simulated",
	"exception-policy-stream-reassembly-memcap-05": "failures of Suricata are not simulated",
	"output-multi-eve":                             "a record is written for each dropped packet",
	"stream-async/http/stream-async-6063-srv-01":   "records name no exception policy",
}
