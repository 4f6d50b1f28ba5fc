package intercept

import "shuultuur/text"

// Instructions say how to make one system trust the root certificate.
type Instructions struct {
	System string
	Format string // of Export
	File   string // the name of the file in the steps
	Steps  []string
}

// Install returns instructions for common systems, for the command line and the page from
// which people download the certificate.
func Install() []Instructions {
	return []Instructions{
		{"Windows", "der", "root.cer", []string{
			text.Mark(`One computer: as administrator, run: certutil -addstore -f Root root.cer`),
			text.Mark(`A domain: Group Policy, Computer Configuration, Policies, Windows Settings, Security Settings, Public Key Policies, Trusted Root Certification Authorities: import root.cer.`),
			text.Mark(`Edge and Chrome follow Windows, and so does Firefox (security.enterprise_roots.enabled, on by default).`),
		}},
		{"macOS", "pem", "root.pem", []string{
			text.Mark(`One computer: sudo security add-trusted-cert -d -r trustRoot -k /Library/Keychains/System.keychain root.pem`),
			text.Mark(`Managed computers: send out the mobileconfig file with the device management; a profile installed by hand must also be trusted in Keychain Access.`),
		}},
		{text.Mark("iOS and iPadOS"), "mobileconfig", "root.mobileconfig", []string{
			text.Mark(`Open root.mobileconfig in Safari or from a mail, then Settings, General, VPN & Device Management: install the profile.`),
			text.Mark(`Settings, General, About, Certificate Trust Settings: switch full trust on for the certificate. Without this step nothing changes. Profiles from a device management are trusted at once.`),
		}},
		{"Android", "der", "root.cer", []string{ // not root.crt, which is another format for Debian
			text.Mark(`Copy root.cer to the device. Settings, Security, Encryption & credentials, Install a certificate, CA certificate: choose the file.`),
			text.Mark(`Browsers use it. Most other apps since Android 7 trust only what came with the system: let their hosts through without interception.`),
		}},
		{text.Mark("Debian and Ubuntu"), "pem", "root.crt", []string{
			text.Mark(`sudo cp root.crt /usr/local/share/ca-certificates/shuultuur.crt (the name must end in .crt)`),
			`sudo update-ca-certificates`,
			text.Mark(`Chromium and Chrome keep a store of their own for each user: certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n shuultuur -i root.crt (package libnss3-tools)`),
		}},
		{text.Mark("Fedora, Red Hat and their like"), "pem", "root.pem", []string{
			`sudo cp root.pem /etc/pki/ca-trust/source/anchors/shuultuur.pem`,
			`sudo update-ca-trust`,
		}},
		{"FreeBSD", "pem", "root.pem", []string{
			text.Mark(`cp root.pem /usr/local/share/certs/shuultuur.pem (make the folder if it is not there)`),
			`certctl rehash`,
		}},
		{"Firefox", "pem", "root.pem", []string{
			text.Mark(`Settings, Privacy & Security, Certificates, View Certificates, Authorities, Import: choose root.pem and tick "Trust this CA to identify websites".`),
			text.Mark(`Many computers: in policies.json set Certificates, Install to the path of root.pem.`),
		}},
		{"Chrome OS", "pem", "root.pem", []string{
			text.Mark(`Managed devices: Google Admin console, Devices, Networks, Certificates: add root.pem and tick Chromebook under "Certificate authority".`),
			text.Mark(`One device: chrome://certificate-manager, Local certificates, Installed by you, Import.`),
		}},
		{"Java", "p12", "root.p12", []string{
			text.Mark(`Start the program with -Djavax.net.ssl.trustStore=root.p12 -Djavax.net.ssl.trustStorePassword=changeit; it then trusts this root alone.`),
		}},
	}
}
