import { BlockList, isIP } from 'node:net';
import { isLoopback, plainAddress } from './limits/address-key.ts';

/** Which addresses may connect: this machine's own loopback, and what the ranges hold. */
export class AllowFrom {
  private readonly ranges = new BlockList();

  /** `ranges` are addresses or CIDRs, such as 10.0.0.0/8 or fd00::/8. Throws RangeError for what is neither. */
  constructor(ranges: readonly string[]) {
    for (const range of ranges) {
      const [address = '', bits, ...more] = range.split('/');
      const version = isIP(address);
      const most = version === 4 ? 32 : 128;
      const prefix = bits === undefined ? most : Number(bits);
      if (version === 0 || more.length > 0 || (bits !== undefined && !/^\d{1,3}$/.test(bits)) || prefix > most) {
        throw new RangeError(`${range} is no range of addresses, such as 10.0.0.0/8.`);
      }
      this.ranges.addSubnet(address, prefix, version === 4 ? 'ipv4' : 'ipv6');
    }
  }

  has(address: string): boolean {
    const plain = plainAddress(address);
    return isLoopback(plain) || this.ranges.check(plain, isIP(plain) === 6 ? 'ipv6' : 'ipv4');
  }
}
