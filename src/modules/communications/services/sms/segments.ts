/** How long a text message is for those who carry it. */

/** GSM 03.38: what fits into seven bits; those of the second list take two places. */
const gsm =
  /^[@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&'()*+,\-./0-9:;<=>?¡A-ZÄÖÑÜ§¿a-zäöñüà^{}\\[~\]|€]*$/;
const twoPlaces = /[\^{}\\[~\]|€]/g;

/** Into how many parts a text is split on its way: what a provider charges for. */
export function smsSegments(text: string): number {
  const seven = gsm.test(text);
  const length = seven ? text.length + (text.match(twoPlaces)?.length ?? 0) : text.length;
  const [one, many] = seven ? [160, 153] : [70, 67];
  return length <= one ? 1 : Math.ceil(length / many);
}
