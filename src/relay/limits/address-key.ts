import { isIPv4, isIPv6 } from 'node:net';

/** An IPv4 address that a dual-stack socket tells as IPv6, as itself. */
export function plainAddress(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  return mapped !== undefined && isIPv4(mapped) ? mapped : address;
}

export function isLoopback(address: string): boolean {
  const plain = plainAddress(address);
  return plain === '::1' || plain === 'localhost' || (isIPv4(plain) && plain.startsWith('127.'));
}

/** By what one host is counted: its IPv4 address, or the /64 of its IPv6 address, in which it may take any it likes. */
export function addressKey(address: string): string {
  const plain = plainAddress(address);
  if (!isIPv6(plain)) return plain;
  const [head = '', tail = ''] = plain.split('%', 1)[0]!.split('::');
  const groups = head === '' ? [] : head.split(':');
  if (plain.includes('::')) {
    const after = tail === '' ? [] : tail.split(':');
    while (groups.length + after.length < 8) groups.push('0');
    groups.push(...after);
  }
  return `${groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`;
}
