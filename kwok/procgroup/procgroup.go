// Package procgroup starts commands as process groups, so that their children end with them. Systems without
// process groups, such as Windows, end only the command.
package procgroup

import (
	"strings"
	"time"
)

// KillDelay is how long a killed command may keep its output open; see [os/exec.Cmd.WaitDelay].
const KillDelay = 5 * time.Second

// LastLine returns the last line of a command's output that is not empty, shortened for error messages.
func LastLine(output string) string {
	output = strings.TrimSpace(output)
	last := output[strings.LastIndexByte(output, '\n')+1:]
	return last[:min(len(last), 200)]
}
