package peer

// restart prepares the borrows for a new view. Claims in flight mean nothing in
// it, so it answers their borrows with ErrUnavailable. Waiting borrows keep their places
// if the new view shows their tickets, and otherwise go back to the queue.
func (p *pools) restart() {
	for _, ps := range p.all() {
		ps.tickets = nil
		ps.generation = 0
		ps.nextNumber, ps.freeNumbers = 0, nil
	}
	for _, b := range p.borrows() {
		b.confirmed = false
		for _, a := range b.callers {
			a.current, a.asked = false, false
		}
		switch b.phase {
		case arrived:
		case joining, waiting:
			b.expectTicket()
		default:
			b.ticket = ticket{} // noteTicket purges it when the new view shows it
			b.finish(Answer{Err: ErrUnavailable})
		}
	}
}

// expectTicket makes a borrow join again with the ticket that it has sent, if the new view
// shows the ticket. Otherwise a borrow that was waiting sends another one, and one that was
// joining is answered ErrUnavailable.
func (b *borrow) expectTicket() {
	key := b.ticket.key
	put(&b.pool.tickets, key, b)
	if b.phase == waiting {
		b.to(joining)
		b.ticket.place = 0
		b.p.whenLive(func() {
			if b.isJoiningAt(key) {
				b.loseTicket()
			}
		})
	}
}
