/** Password hashing: argon2id in a bounded pool (spec/authentication.md section 9). */
export interface PasswordHasher {
  hash(password: string): Promise<string>;
  /**
   * True when it matches. With `undefined` (no such account, no password) it does the same work
   * and answers false, so that time tells nothing.
   */
  verify(hash: string | undefined, password: string): Promise<boolean>;
  /** The hash was made with other parameters than those in force: hash again after a successful login. */
  outdated(hash: string): boolean;
}
