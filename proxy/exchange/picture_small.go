//go:build small

package exchange

import "shuultuur/message"

// standIn returns nil: the small build reads no pictures, so that the client gets the page or
// pixel as for any other request.
func standIn(*Exchange) *message.Response { return nil }
