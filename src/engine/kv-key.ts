/** Who may share blocks with whom, and which of a sequence's tokens may be shared at all. */
export interface KvKey {
  /** Weights version and adapter; of a private one its request too. */
  readonly root: string;
  /** Its input isn't all token ids: it shares with others of its root alone, and nothing stays when these have ended. */
  readonly private: boolean;
}
