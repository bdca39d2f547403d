package natsembed_test

import (
	"context"
	"fmt"
	"os"

	"github.com/kvslots/kvslots/natsembed"
)

func Example() {
	dir, err := os.MkdirTemp("", "kvslots-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	srv, err := natsembed.Start(context.Background(), natsembed.Config{DataDir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()

	nc, err := srv.Connect()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	fmt.Println(nc.IsConnected())
	// Output: true
}
