const PLAIN = '0';
const ADAPTED = '0, adapter ';

/** Whose prefixes may be shared: (weights version, adapter's version). There is one version of weights. */
export function kvRootOf(adapter: number | undefined): string {
  return adapter === undefined ? PLAIN : `${ADAPTED}${adapter}`;
}

/** Whether what is cached under a root is for rows with an adapter: ids alone don't say what it is. */
export function isAdapted(root: string): boolean {
  return root.startsWith(ADAPTED);
}
