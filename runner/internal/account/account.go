// Package account knows the users of a sandbox and runs file calls with their rights.
package account

// A User is a user inside the sandbox.
type User struct {
	Name string `json:"name"`
	UID  uint32 `json:"uid"`
	GID  uint32 `json:"gid"`
}

// Default is the name of the user that programs run as unless a request names another.
const Default = "sandbox"
