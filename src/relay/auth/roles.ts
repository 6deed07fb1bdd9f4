/** Who may ask for what on the web port. An operator may do all that a client may; a node serves and does nothing else. */
export const ROLES = ['node', 'client', 'operator'] as const;

export type Role = (typeof ROLES)[number];

export function isRole(text: string): text is Role {
  return (ROLES as readonly string[]).includes(text);
}
