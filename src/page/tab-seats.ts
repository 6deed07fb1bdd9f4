/**
 * On plain http browsers open six connections to an origin, for all tabs together, and each node holds one of them: a
 * seventh would hang, and not even the page would load. So two tabs of a browser profile serve, told by Web Locks.
 */
const SEATS = ['shoal-seat-1', 'shoal-seat-2'] as const;

/** Held until it is released, or until another tab takes it. */
export interface TabSeat {
  release(): void;
  /** Resolves when another tab has taken it. */
  readonly taken: Promise<void>;
}

/** Whether tabs of this browser share a few connections to the relay: HTTP/2, which takes TLS, knows no such bound. */
export function tabsShareConnections(): boolean {
  return location.protocol === 'http:';
}

/**
 * A seat, at once where one is free. Else `onWait` is called and it waits for one; where `takeOver` aborts, it takes one from
 * its tab instead. Rejects when `signal` aborts.
 */
export async function takeSeat(signal: AbortSignal, takeOver: AbortSignal, onWait: () => void): Promise<TabSeat> {
  for (const name of SEATS) {
    const seat = await request(name, { ifAvailable: true }).catch(seatOfItsOwn);
    if (seat) return seat;
  }
  signal.throwIfAborted();
  onWait();
  const rest = new AbortController();
  const waits = SEATS.map((name) => request(name, { signal: AbortSignal.any([signal, rest.signal]) }));
  const stolen = new Promise<void>((resolve) =>
    takeOver.addEventListener('abort', () => resolve(), { once: true }),
  ).then(() => request(SEATS[0], { steal: true }));
  let seat: TabSeat | undefined;
  try {
    seat = await Promise.race([...waits, stolen]);
    if (!seat) throw new Error('the browser gives no lock');
    return seat;
  } finally {
    // One that comes all the same is another tab's.
    for (const other of [...waits, stolen]) {
      void other.then(
        (one) => one !== seat && one?.release(),
        () => {},
      );
    }
    rest.abort();
  }
}

/** A page whose browser refuses it locks can't know of other tabs: it serves, as the only one would. */
function seatOfItsOwn(error: unknown): TabSeat {
  if (!(error instanceof DOMException && error.name === 'SecurityError')) throw error;
  return { release: () => {}, taken: new Promise(() => {}) };
}

/** The seat, once it is there; undefined: it is not available. Rejects when the wish for it is called off. */
function request(name: string, options: LockOptions): Promise<TabSeat | undefined> {
  return new Promise((resolve, reject) => {
    let taken = () => {};
    const held = navigator.locks.request(name, options, (lock) => {
      if (lock === null) return resolve(undefined);
      return new Promise<void>((release) => {
        const lost = new Promise<void>((tell) => {
          taken = tell;
        });
        resolve({ release, taken: lost });
      });
    });
    held.catch((error: unknown) => {
      taken();
      // Counts only where there was no seat yet.
      reject(error);
    });
  });
}
