/** A part of the driver that its types leave out. */
declare module 'pg/lib/utils.js' {
  const utils: {
    /** A value as PostgreSQL reads it. Throws for an object that holds itself. */
    prepareValue(value: unknown): string | Buffer | null;
  };
  export = utils;
}
