/**
 * One-time codes by time (RFC 6238: SHA-1, six digits, steps of 30 seconds), as authenticator apps make
 * them. Who keeps a secret also keeps the last step that was used, so that a code works once.
 */

/** What an authenticator app needs. Shown once, to the person alone. */
export interface TotpEnrolment {
  /** PNG as a data URI: nothing leaves the machine. */
  readonly image: string;
  readonly uri: string;
  readonly secret: string;
}

const stepSeconds = 30;
/** One step before and after, for clocks that differ. */
const toleranceSeconds = 30;
const codeShape = /^\d{6}$/;

/** Base32, 160 bits. The library is loaded at the first use: most starts never need it. */
export async function newTotpSecret(): Promise<string> {
  const { generateSecret } = await import('otplib');
  return generateSecret();
}

/** `issuer` and `label` name the entry in the app. */
export async function describeTotp(
  secret: string,
  names: { readonly issuer: string; readonly label: string },
): Promise<TotpEnrolment> {
  const [{ generateURI }, { toDataURL }] = await Promise.all([import('otplib'), import('qrcode')]);
  const uri = generateURI({ ...names, secret });
  return { image: await toDataURL(uri), uri, secret };
}

/** The step that a code (see `tidyCode`) belongs to, now or one step away; nothing when it is wrong. */
export async function totpStep(secret: string, code: string): Promise<number | undefined> {
  if (!codeShape.test(code)) return undefined;
  const { verifySync } = await import('otplib');
  const result = verifySync({
    secret,
    token: code,
    period: stepSeconds,
    epochTolerance: toleranceSeconds,
  });
  return result.valid && 'timeStep' in result ? result.timeStep : undefined;
}

/** A code as people type it, without the spaces in which apps show it. */
export const tidyCode = (code: string): string => code.replace(/\s/g, '');
