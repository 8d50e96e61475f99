/** Encryption at rest for small secrets (configuration leaves, TOTP seeds, signing keys). */
export interface SecretBox {
  /** AES-256-GCM under the platform's data key; `context` is bound to the text and must be the same to open it. */
  seal(plain: string, context: string): string;
  open(sealed: string, context: string): string;
  /** Keyed digest for looking up high-entropy tokens without storing them. Hex. */
  digest(token: string, purpose: string): string;
}
