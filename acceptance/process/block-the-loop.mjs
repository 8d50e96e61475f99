/**
 * Loaded into a platform under test (NODE_OPTIONS=--import): a request with this address in it makes
 * the event loop stand still for ever, in the middle of the operation that reads it.
 */
const trigger = 'block-the-loop@example.com';
const original = String.prototype.toLowerCase;
String.prototype.toLowerCase = function toLowerCase() {
  // Recursion through `original` only: nothing else may be slower for it.
  if (this.length === trigger.length && String(this) === trigger) for (;;);
  return original.call(this);
};
