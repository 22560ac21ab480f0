export function ball() {}
