/** Where a request came from, as sessions remember it. */
export interface Origin {
  readonly address: string;
  readonly userAgent: string | undefined;
}

const maxUserAgentLength = 512;

/** The user agent as it is stored: bounded, without control characters. */
export const storedUserAgent = (userAgent: string | undefined): string | null =>
  userAgent?.slice(0, maxUserAgentLength).replace(/\p{Cc}/gu, ' ') ?? null;
