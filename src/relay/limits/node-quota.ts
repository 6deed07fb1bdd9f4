import { Code, ConnectError } from '@connectrpc/connect';

/** Bounds how many nodes one session and one host have at a time: ranks are few, and each is someone's. */
export class NodeQuota {
  /** By the node's session with the fleet: whose it is. */
  private readonly owners = new Map<string, readonly string[]>();

  /** Throws ConnectError (RESOURCE_EXHAUSTED) where one of `owners` has as many of the `live` nodes as it may. */
  check(owners: readonly (readonly [string, number])[], live: ReadonlySet<string>): void {
    for (const node of this.owners.keys()) {
      if (!live.has(node)) this.owners.delete(node);
    }
    for (const [owner, most] of owners) {
      let count = 0;
      for (const one of this.owners.values()) if (one.includes(owner)) count++;
      if (count >= most) throw new ConnectError(`More than ${most} nodes of one owner.`, Code.ResourceExhausted);
    }
  }

  add(node: string, owners: readonly (readonly [string, number])[]): void {
    this.owners.set(
      node,
      owners.map(([owner]) => owner),
    );
  }
}
