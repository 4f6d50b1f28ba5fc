package address

import (
	"maps"
	"slices"
	"strings"

	"shuultuur/lib/setting"
)

// Groups returns the address and port groups that public rules use, with the clients as
// HOME_NET.
func Groups() (vars, ports map[string]string) {
	vars = map[string]string{"HOME_NET": Clients, "EXTERNAL_NET": "!$HOME_NET"}
	for _, n := range strings.Fields("HTTP_SERVERS SMTP_SERVERS SQL_SERVERS DNS_SERVERS TELNET_SERVERS DC_SERVERS DNP3_SERVER DNP3_CLIENT MODBUS_CLIENT MODBUS_SERVER ENIP_CLIENT ENIP_SERVER SIP_SERVERS") {
		vars[n] = "$HOME_NET"
	}
	vars["AIM_SERVERS"] = "$EXTERNAL_NET"
	ports = map[string]string{
		"HTTP_PORTS": "80", "SHELLCODE_PORTS": "!80", "ORACLE_PORTS": "1521", "SSH_PORTS": "22", "DNP3_PORTS": "20000", "MODBUS_PORTS": "502",
		"FILE_DATA_PORTS": "[$HTTP_PORTS,110,143]", "FTP_PORTS": "21", "GENEVE_PORTS": "6081", "VXLAN_PORTS": "4789", "TEREDO_PORTS": "3544", "SIP_PORTS": "[5060,5061]",
	}
	return vars, ports
}

// Clients is the address group of the gateway's clients: it matches the side that opened the
// connection, whatever its address.
const Clients = "clients"

// CheckGroups finds mistakes in groups of addresses and of ports in the settings. vars and
// portVars have all groups, to which they may refer.
func CheckGroups(vars, portVars, addresses, ports map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(addresses)) {
		if _, err := parseAddresses(addresses[name], vars, 0); err != nil {
			return setting.At("vars."+name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ports)) {
		if _, err := parsePorts(ports[name], portVars, 0); err != nil {
			return setting.At("ports."+name, err)
		}
	}
	return nil
}
