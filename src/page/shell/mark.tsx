/** Three fish, one way. */
export function Mark() {
  return (
    <svg width="26" height="20" viewBox="0 0 26 20" fill="currentColor" aria-hidden="true">
      <path d="M1 4.2c3.4-3 7.6-3 10.4 0l2.4-2v5l-2.4-2c-2.8 3-7 3-10.4-1z" opacity="0.55" />
      <path d="M11 9.6c3.4-3 7.6-3 10.4 0l2.6-2v5l-2.6-2c-2.8 3-7 3-10.4-1z" />
      <path d="M3 15.4c3.4-3 7.6-3 10.4 0l2.4-2v5l-2.4-2c-2.8 3-7 3-10.4-1z" opacity="0.75" />
    </svg>
  );
}
