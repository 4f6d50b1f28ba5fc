package portal

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"
)

// A profile configures a device: with proxy, certificate and encrypted DNS, if
// this gateway has them.
type profile struct {
	name string // names of the gateway
	pac  string // URL of the proxy configuration, or ""
	root []byte // certificate (DER), or nil
	dns  DNS
	wifi string // name of a wireless network (SSID), or ""
	all  bool   // for a supervised device: the proxy applies to all networks
}

const maxSSID = 32 // bytes (IEEE 802.11, 9.4.2.2)

// profileOf returns the profile for the client. ok is false if the request is
// wrong and has been answered.
func (s *Server) profileOf(w http.ResponseWriter, r *http.Request) (p profile, ok bool) {
	e := s.engine.Load()
	p = profile{name: e.Pages.place.Name, dns: e.Pages.place.DNS, wifi: r.FormValue("ssid"), all: r.FormValue("supervised") != ""}
	if len(p.wifi) > maxSSID {
		http.Error(w, fmt.Sprintf("ssid: the name of a wireless network has at most %d bytes", maxSSID), http.StatusBadRequest)
		return p, false
	}
	if e.scriptFor(r) != nil {
		p.pac = e.Pages.place.URL + "/proxy.pac"
	}
	if root := e.rootOf(); root != nil {
		p.root = root.Certificate.Raw
	}
	return p, true
}

func download(w http.ResponseWriter, kind, name string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	_, _ = w.Write(body) // it fails if the client has gone away
}

// root serves the certificate that devices should trust.
func (s *Server) root(w http.ResponseWriter, r *http.Request) {
	root := s.engine.Load().rootOf()
	if root == nil {
		http.Error(w, "this gateway looks into no encrypted connections: there is no certificate to trust", http.StatusNotFound)
		return
	}
	download(w, "application/x-x509-ca-cert", "root.cer", root.Certificate.Raw)
}

// apple serves a configuration profile (Apple, Device Management, Profile-Specific
// Payload Keys). Apple sets a proxy only for one wireless network (?ssid=NAME) or
// for all networks of a supervised device (?supervised=1).
func (s *Server) apple(w http.ResponseWriter, r *http.Request) {
	if p, ok := s.profileOf(w, r); ok {
		download(w, "application/x-apple-aspen-config", "shuultuur.mobileconfig", p.apple())
	}
}

// plist writes a property list.
type plist struct{ bytes.Buffer }

func (b *plist) text(tag, s string) {
	b.WriteString("<" + tag + ">")
	_ = xml.EscapeText(b, []byte(s)) // a buffer accepts all
	b.WriteString("</" + tag + ">\n")
}

// pair writes a key and a string, an integer, a boolean, data or a list of
// strings.
func (b *plist) pair(key string, value any) {
	b.text("key", key)
	switch v := value.(type) {
	case string:
		b.text("string", v)
	case int:
		b.text("integer", fmt.Sprint(v))
	case bool:
		fmt.Fprintf(b, "<%t/>\n", v)
	case []byte:
		b.text("data", base64.StdEncoding.EncodeToString(v))
	case []string:
		b.WriteString("<array>\n")
		for _, s := range v {
			b.text("string", s)
		}
		b.WriteString("</array>\n")
	}
}

// payload writes the keys that each payload begins with. Its identifier depends
// only on its purpose, so a profile that is installed again replaces the old one.
func (b *plist) payload(p *profile, kind, id, name string) {
	b.pair("PayloadType", kind)
	b.pair("PayloadVersion", 1)
	b.pair("PayloadIdentifier", "shuultuur."+p.name+id)
	sum := sha256.Sum256([]byte("profile " + p.name + id + p.wifi))
	u := sum[:16]
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80 // version 8 (RFC 9562, 5.8)
	b.pair("PayloadUUID", fmt.Sprintf("%X-%X-%X-%X-%X", u[:4], u[4:6], u[6:8], u[8:10], u[10:]))
	b.pair("PayloadDisplayName", name)
}

func (p *profile) apple() []byte {
	b := &plist{}
	b.WriteString(xml.Header + `<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">` + "\n<plist version=\"1.0\">\n<dict>\n")
	b.payload(p, "Configuration", "", "Web filter "+p.name)
	b.pair("PayloadScope", "System")
	b.text("key", "PayloadContent")
	b.WriteString("<array>\n")
	if p.root != nil {
		b.WriteString("<dict>\n")
		b.payload(p, "com.apple.security.root", ".root", "Root certificate of the web filter")
		b.pair("PayloadContent", p.root)
		b.pair("PayloadCertificateFileName", "root.cer")
		b.WriteString("</dict>\n")
	}
	if p.dns.HTTPS != "" || p.dns.TLS != "" {
		b.WriteString("<dict>\n")
		b.payload(p, "com.apple.dnsSettings.managed", ".dns", "Encrypted DNS")
		b.text("key", "DNSSettings")
		b.WriteString("<dict>\n")
		if p.dns.HTTPS != "" {
			b.pair("DNSProtocol", "HTTPS")
			b.pair("ServerURL", p.dns.HTTPS)
		} else {
			b.pair("DNSProtocol", "TLS")
			b.pair("ServerName", p.dns.TLS)
		}
		if len(p.dns.Addrs) > 0 {
			b.pair("ServerAddresses", p.dns.Addrs)
		}
		b.WriteString("</dict>\n</dict>\n")
	}
	if p.pac != "" && p.wifi != "" {
		b.WriteString("<dict>\n")
		b.payload(p, "com.apple.wifi.managed", ".wifi", "Wireless network "+p.wifi)
		b.pair("SSID_STR", p.wifi)
		b.pair("EncryptionType", "Any")
		b.pair("AutoJoin", true)
		b.pair("ProxyType", "Auto")
		b.pair("ProxyPACURL", p.pac)
		b.pair("ProxyPACFallbackAllowed", false)
		b.WriteString("</dict>\n")
	}
	if p.pac != "" && p.all {
		b.WriteString("<dict>\n")
		b.payload(p, "com.apple.proxy.http.global", ".proxy", "Proxy")
		b.pair("ProxyType", "Auto")
		b.pair("ProxyPACURL", p.pac)
		b.pair("ProxyPACFallbackAllowed", false)
		b.pair("ProxyCaptiveLoginAllowed", true)
		b.WriteString("</dict>\n")
	}
	b.WriteString("</array>\n</dict>\n</plist>\n")
	return b.Bytes()
}

// windows serves a script for PowerShell 5 or later.
func (s *Server) windows(w http.ResponseWriter, r *http.Request) {
	if p, ok := s.profileOf(w, r); ok {
		download(w, "text/plain; charset=utf-8", "shuultuur.ps1", p.windows())
	}
}

// power returns s as a literal string of PowerShell.
func power(s string) string {
	return "'" + strings.NewReplacer("'", "''", "\u2018", "''", "\u2019", "''", "\n", " ", "\r", " ").Replace(s) + "'"
}

func (p *profile) windows() []byte {
	var b strings.Builder
	b.WriteString("#Requires -RunAsAdministrator\r\n# Proxy, certificate and encrypted DNS of the web filter " + strings.Map(plainName, p.name) + ".\r\n$ErrorActionPreference = 'Stop'\r\n")
	line := func(format string, v ...any) { fmt.Fprintf(&b, format+"\r\n", v...) }
	if p.root != nil {
		line("$certificate = New-Object System.Security.Cryptography.X509Certificates.X509Certificate2 (,[Convert]::FromBase64String(%s))", power(base64.StdEncoding.EncodeToString(p.root)))
		line("$store = New-Object System.Security.Cryptography.X509Certificates.X509Store 'Root', 'LocalMachine'")
		line("$store.Open('ReadWrite')")
		line("$store.Add($certificate)")
		line("$store.Close()")
	}
	if p.pac != "" {
		line("$settings = 'Software\\Microsoft\\Windows\\CurrentVersion\\Internet Settings'")
		line("Set-ItemProperty -Path \"HKCU:\\$settings\" -Name AutoConfigURL -Value %s", power(p.pac))
		line("Set-ItemProperty -Path \"HKCU:\\$settings\" -Name ProxyEnable -Value 0")
		line("Set-ItemProperty -Path \"HKLM:\\$settings\" -Name AutoConfigURL -Value %s", power(p.pac))
		// Without this, the proxy of the machine has no effect, and the proxy of the
		// administrator who runs the script applies to no other user.
		line("$policy = 'HKLM:\\Software\\Policies\\Microsoft\\Windows\\CurrentVersion\\Internet Settings'")
		line("if (-not (Test-Path $policy)) { New-Item -Path $policy -Force | Out-Null }")
		line("Set-ItemProperty -Path $policy -Name ProxySettingsPerUser -Type DWord -Value 0")
	}
	if p.dns.HTTPS != "" {
		for _, a := range p.dns.Addrs {
			line("if (Get-Command Add-DnsClientDohServerAddress -ErrorAction SilentlyContinue) {")
			line("  Remove-DnsClientDohServerAddress -ServerAddress %s -ErrorAction SilentlyContinue", power(a))
			line("  Add-DnsClientDohServerAddress -ServerAddress %s -DohTemplate %s -AllowFallbackToUdp $false -AutoUpgrade $true", power(a), power(p.dns.HTTPS))
			line("}")
		}
		if len(p.dns.Addrs) > 0 {
			var quoted []string
			for _, a := range p.dns.Addrs {
				quoted = append(quoted, power(a))
			}
			line("Get-NetAdapter -Physical | Where-Object Status -eq 'Up' | Set-DnsClientServerAddress -ServerAddresses %s", strings.Join(quoted, ", "))
		}
	}
	line("Write-Output 'The web filter is set up.'")
	return []byte(b.String())
}

// plainName keeps characters that are valid in host names.
func plainName(c rune) rune {
	if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == ':' {
		return c
	}
	return -1
}

// android serves a policy of the Android Management API (its Policy resource). The
// certificate is in an Open Network Configuration, which ChromeOS reads too.
func (s *Server) android(w http.ResponseWriter, r *http.Request) {
	p, ok := s.profileOf(w, r)
	if !ok {
		return
	}
	b, err := p.android()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	download(w, "application/json", "shuultuur.json", b)
}

func (p *profile) android() ([]byte, error) {
	type object = map[string]any
	policy := object{}
	if p.pac != "" {
		policy["recommendedGlobalProxy"] = object{"pacUri": p.pac}
	}
	if p.dns.TLS != "" {
		policy["deviceConnectivityManagement"] = object{"privateDnsSettings": object{"privateDnsMode": "PRIVATE_DNS_SPECIFIED_HOST", "privateDnsHost": p.dns.TLS}}
	}
	network := object{"Type": "UnencryptedConfiguration"}
	if p.root != nil {
		network["Certificates"] = []object{{"GUID": "shuultuur-root", "Type": "Authority", "X509": base64.StdEncoding.EncodeToString(p.root), "TrustBits": []string{"Web"}}}
	}
	if p.wifi != "" {
		wifi := object{"GUID": "shuultuur-wifi", "Name": p.wifi, "Type": "WiFi", "WiFi": object{"SSID": p.wifi, "Security": "WPA-PSK", "AutoConnect": true}}
		if p.pac != "" {
			wifi["ProxySettings"] = object{"Type": "PAC", "PAC": p.pac}
		}
		network["NetworkConfigurations"] = []object{wifi}
	}
	if len(network) > 1 {
		policy["openNetworkConfiguration"] = network
	}
	return json.MarshalIndent(policy, "", "  ")
}
