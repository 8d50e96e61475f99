/** One mailbox in ASCII: no name, no list, no quotes, no line breaks (RFC 5321 4.1.2, without quoted parts). */
const mailbox =
  /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*$/;

/** Whether a text is the address of one mailbox, and nothing else. */
export const isMailbox = (text: string): boolean => text.length <= 254 && mailbox.test(text);
