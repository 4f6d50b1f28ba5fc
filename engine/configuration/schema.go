package configuration

import (
	"encoding/json"
	"io/fs"

	"shuultuur/lib/setting"
)

// Schema returns the JSON schema of the settings file, with the descriptions from the tables
// in the manual.
func Schema(manual fs.FS) ([]byte, error) {
	rows, err := setting.Manual(manual)
	if err != nil {
		return nil, err
	}
	words := map[string]setting.Row{}
	for _, r := range rows {
		words[r.Key] = r
	}
	return json.MarshalIndent(setting.Schema(&Settings{}, words), "", " ")
}
